from __future__ import annotations

from collections.abc import Callable

import pytest
import srt
from hypothesis import given
from hypothesis import strategies as st

from service.documents.formats.captions import open_srt, open_vtt
from service.documents.types import BrokenDocument, Document, MarkupLost
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
            *("1", "2", "00:00:01,000 --> 00:00:02,000", "- a", "", " "),
            *("Hello", "there. <i>You", "me</i>"),
        ]
    )
)


@given(LINES, st.sampled_from(["\n", "\r\n", "\r"]))
def test_untranslated_captions_stay_byte_for_byte(lines: list[str], newline: str) -> None:
    content = newline.join(["1", "0:00:01,0 --> 0:00:02,0", *lines]).encode()
    assert unchanged(open_srt(content)) == content


def caption(said: str) -> bytes:
    return f"1\n00:00:01,000 --> 00:00:02,000\n{said}\n".encode()


def test_a_sentence_over_two_lines_is_one_text() -> None:
    assert [source.text for source in open_srt(FILM.encode()).texts] == [
        "We were walking through the park.",
        "Where are you?",
        "Here!",
        '<g id="2">Rock &amp; roll <g id="3">never</g> dies</g> &lt;3',
    ]
    chinese = open_srt(caption("我们在\n公园里"))
    assert [source.text for source in chinese.texts] == ["我们在公园里"]


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


@pytest.mark.parametrize(
    ("source", "translation", "lines"),
    [
        ("One two\nthree four", "eins zwei drei vier", ["eins zwei", "drei vier"]),
        (
            "One",
            "Donaudampfschiff " * 4 + "fahrt",
            ["Donaudampfschiff Donaudampfschiff", "Donaudampfschiff Donaudampfschiff fahrt"],
        ),
    ],
)
def test_a_translation_has_as_many_even_lines_as_its_source_or_more_if_they_are_too_long(
    source: str, translation: str, lines: list[str]
) -> None:
    written = open_srt(caption(source)).replaced([translation])
    assert written.decode().splitlines()[2:] == lines


def test_moved_tags_are_kept_and_lost_tags_raise_markup_lost() -> None:
    document = open_srt(caption("say <i>hello</i> now"))
    assert b"\njetzt <i>hallo</i> sagen\n" in document.replaced(['jetzt <g id="1">hallo</g> sagen'])
    for lost in ("jetzt", 'jetzt <g id="1">hallo', "jetzt </g>", '<g id="9">a</g> <g id="1">b</g>'):
        with pytest.raises(MarkupLost):
            document.replaced([lost])


def test_a_caption_without_a_number_is_read() -> None:
    content = b"0:00:01,0 --> 0:00:02,0\nhello\n\n0:00:03,0 --> 0:00:04,0\n7\nyou\n"
    assert shouted(open_srt(content)) == content.replace(b"hello", b"HELLO").replace(b"you", b"YOU")


@pytest.mark.parametrize(
    ("read", "content", "line"),
    [
        (open_srt, b"\nHello there\n", 2),
        (open_srt, b"1\n00:00:01,000 -> 00:00:02,000\nHi\n", 1),
        (open_srt, caption("Hi") + b"\n2\n0:00:03,0 --> soon\n", 6),
        (open_vtt, b"1\n00:01.000 --> 00:02.000\na\n", 1),
        (open_vtt, b"WEBVTT\n\n1 --> 2\na\n", 3),
    ],
)
def test_broken_files_are_refused_with_the_line_number(
    read: Callable[[bytes], Document], content: bytes, line: int
) -> None:
    with pytest.raises(BrokenDocument, match=f"line {line} "):
        read(content)


def test_ten_thousand_unpaired_tags_are_read_in_linear_time() -> None:
    content = b"1\n0:00:01,0 --> 0:00:02,0\n" + b"<i>" * 10_000 + b"a" + b"</b>" * 10_000
    assert translated(open_srt(content), str.upper) == content.replace(b">a<", b">A<")


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("- one", "one"),
        ("\N{EN DASH} one", "one"),
        ("-one", "one"),
        (">> one", "one"),
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
