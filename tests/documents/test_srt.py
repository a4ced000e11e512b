from __future__ import annotations

import pytest
import srt
from hypothesis import given
from hypothesis import strategies as st

from service.documents.formats.captions import open_srt, open_vtt
from service.documents.types import BrokenDocument, MarkupLost
from tests.documents.translations import shouted, translated, unchanged

FILM = """1
00:00:01,000 --> 00:00:02,500
We were walking
through the park.

2
00:00:03,000 --> 00:00:04,000 X1:100 X2:200
- Where are you?
- Here!

3
00:01:00.5 --> 00:01:02,000
{\\an8}<i>Rock & roll
<b>never</b> dies</i> <3

4
00:01:03,000 --> 00:01:04,000

5
00:01:05,000 --> 00:01:06,000
♪ ♪
"""

LINES = st.lists(
    st.sampled_from(
        [
            "1",
            "2",
            "00:00:01,000 --> 00:00:02,000",
            "Hello",
            "there. <i>You",
            "me</i>",
            "",
            " ",
            "- a",
        ]
    )
)


@given(LINES, st.sampled_from(["\n", "\r\n", "\r"]))
def test_untranslated_captions_stay_byte_for_byte(lines: list[str], newline: str) -> None:
    content = newline.join(["1", "0:00:01,0 --> 0:00:02,0", *lines]).encode()
    assert unchanged(open_srt(content)) == content


def test_a_sentence_over_two_lines_is_one_text() -> None:
    assert [source.text for source in open_srt(FILM.encode()).texts] == [
        "We were walking through the park.",
        "Where are you?",
        "Here!",
        '<g id="2">Rock &amp; roll <g id="3">never</g> dies</g> &lt;3',
    ]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_translation_keeps_numbers_times_and_tags(newline: str) -> None:
    film = FILM.replace("\n", newline)
    expected = FILM
    for said in ("We were walking", "through the park", "Where are you", "Here", "Rock", "roll"):
        expected = expected.replace(said, said.upper())
    expected = expected.replace("never", "NEVER").replace("dies", "DIES")
    assert shouted(open_srt(film.encode())).decode() == expected.replace("\n", newline)


def test_the_srt_library_reads_the_same_times_after_translation() -> None:
    before = list(srt.parse(FILM))
    after = list(srt.parse(shouted(open_srt(FILM.encode())).decode()))
    assert [(c.index, c.start, c.end) for c in before] == [(c.index, c.start, c.end) for c in after]
    assert [c.content.count("\n") for c in before] == [c.content.count("\n") for c in after]


def test_a_translation_is_wrapped_evenly_to_the_source_number_of_lines() -> None:
    document = open_srt(b"1\n0:00:01,0 --> 0:00:02,0\nOne two\nthree four\n")
    assert document.replaced(["eins zwei drei vier"]).endswith(b"\neins zwei\ndrei vier\n")


def test_a_too_long_line_is_broken() -> None:
    document = open_srt(b"1\n0:00:01,0 --> 0:00:02,0\nOne\n")
    lines = document.replaced(["Donaudampfschiff " * 4 + "fahrt"]).decode().splitlines()[2:]
    assert lines == ["Donaudampfschiff Donaudampfschiff", "Donaudampfschiff Donaudampfschiff fahrt"]


def test_moved_tags_are_kept_and_lost_tags_raise_markup_lost() -> None:
    document = open_srt(b"1\n0:00:01,0 --> 0:00:02,0\nsay <i>hello</i> now\n")
    assert b"\njetzt <i>hallo</i> sagen\n" in document.replaced(['jetzt <g id="1">hallo</g> sagen'])
    for lost in ("jetzt", 'jetzt <g id="1">hallo', "jetzt </g>", '<g id="9">a</g> <g id="1">b</g>'):
        with pytest.raises(MarkupLost):
            document.replaced([lost])


def test_lines_of_scripts_without_blanks_are_joined_without_a_blank() -> None:
    document = open_srt("1\n0:00:01,0 --> 0:00:02,0\n我们在\n公园里\n".encode())
    assert [source.text for source in document.texts] == ["我们在公园里"]


def test_a_caption_without_a_number_is_read() -> None:
    content = b"0:00:01,0 --> 0:00:02,0\nhello\n\n0:00:03,0 --> 0:00:04,0\n7\nyou\n"
    assert shouted(open_srt(content)) == content.replace(b"hello", b"HELLO").replace(b"you", b"YOU")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\nHello there\n", "line 2 belongs to no caption"),
        (b"1\n00:00:01,000 -> 00:00:02,000\nHi\n", "line 1 belongs to no caption"),
        (
            b"1\n0:00:01,0 --> 0:00:02,0\nHi\n\n2\n0:00:03,0 --> soon\n",
            "line 6 has an arrow but no",
        ),
    ],
)
def test_broken_files_are_refused_with_the_line_number(content: bytes, reason: str) -> None:
    with pytest.raises(BrokenDocument, match=reason):
        open_srt(content)


def test_ten_thousand_unpaired_tags_are_read_in_linear_time() -> None:
    content = b"1\n0:00:01,0 --> 0:00:02,0\n" + b"<i>" * 10_000 + b"a" + b"</b>" * 10_000
    assert translated(open_srt(content), str.upper) == content.replace(b">a<", b">A<")


@pytest.mark.parametrize("dash", ["- ", "\N{EN DASH} ", "-", ">> "])
def test_dialogue_dashes_are_kept_and_not_translated(dash: str) -> None:
    captions = f"1\n00:00:01,000 --> 00:00:02,000\n{dash}one\n{dash}two\n"
    document = open_srt(captions.encode())
    assert [source.text for source in document.texts] == ["one", "two"]
    assert document.replaced(["eins", "zwei"]).decode() == (
        captions.replace("one", "eins").replace("two", "zwei")
    )


def caption(said: str) -> bytes:
    return f"1\n00:00:01,000 --> 00:00:02,000\n{said}\n".encode()


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("♪ La la la ♪", "La la la"),
        ("- ♪ Hello again", "Hello again"),
        ("<i>- Where?</i>", "Where?"),
        ("<i>♪ a song</i> ♪", "a song"),
        ("{\\an8}– Yes", "Yes"),
    ],
)
def test_dashes_and_notes_of_music_stay_and_are_not_translated(said: str, text: str) -> None:
    document = open_srt(caption(said))
    assert [source.text for source in document.texts] == [text]
    assert document.replaced(["NEW WORDS"]) == caption(said.replace(text, "NEW WORDS"))


VTT = """WEBVTT - some title

STYLE
::cue { color: red }

NOTE a note that
is not spoken

intro
00:01.000 --> 00:02.500 align:start
<v Fred>Hello <c.loud>there</c> &amp; welcome
to the <00:02.000>show

01:00:01.000 --> 01:00:02.000
- Who?
- Me!
"""


def test_only_the_spoken_words_of_webvtt_change() -> None:
    document = open_vtt(VTT.encode())
    assert [source.text for source in document.texts] == [
        'Hello <g id="2">there</g> &amp; welcome to the <x id="3"/>show',
        "Who?",
        "Me!",
    ]
    assert unchanged(open_vtt(VTT.encode())) == VTT.encode()
    spoken = ("Hello", "there", "welcome", "to the", "show\n", "Who", "Me!")
    expected = VTT.replace("welcome\nto the", "welcome to\nthe")
    for words in (*spoken, "to\nthe"):
        expected = expected.replace(words, words.upper())
    assert shouted(document).decode().split() == expected.split()


def test_captions_that_are_not_webvtt_are_refused() -> None:
    with pytest.raises(BrokenDocument, match="line 1 is not WEBVTT"):
        open_vtt(b"1\n00:01.000 --> 00:02.000\na\n")
    with pytest.raises(BrokenDocument, match="line 3 has an arrow but no times"):
        open_vtt(b"WEBVTT\n\n1 --> 2\na\n")
