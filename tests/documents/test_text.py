from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.documents import Languages, open_document
from service.documents.containers.encoding import decode
from service.documents.formats.text import open_text
from service.documents.fragments.lines import lines_of
from service.documents.types import BrokenDocument, characters
from tests.documents.translations import shouted, unchanged

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0\ufeff")) | st.text("ab. \n\r\t")


@given(TEXTS)
def test_untranslated_texts_stay_byte_for_byte(text: str) -> None:
    assert unchanged(open_text(text.encode())) == text.encode()


@given(TEXTS)
def test_texts_contain_every_letter_and_digit(text: str) -> None:
    said = "".join(source.text for source in open_text(text.encode()).texts)
    assert [c for c in said if c.isalnum()] == [c for c in text if c.isalnum()]


def test_blanks_and_line_ends_are_kept() -> None:
    assert shouted(open_text(b"\r\n\t one.\r\n\r\n  two \n\n")) == b"\r\n\t ONE.\r\n\r\n  TWO \n\n"


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (b"", "utf-16-le"),
        (b"", "utf-16-be"),
    ],
)
def test_encoding_of_a_mark_or_utf_16_without_one_is_recognised_and_kept(
    mark: bytes, encoding: str
) -> None:
    document = open_text(mark + "Schöne Grüße 😀\n".encode(encoding))
    assert [source.text for source in document.texts] == ["Schöne Grüße 😀"]
    assert shouted(document) == mark + "SCHÖNE GRÜSSE 😀\n".encode(encoding)


def test_text_invalid_in_its_marked_encoding_is_refused() -> None:
    with pytest.raises(BrokenDocument, match="byte 4 is not UTF-16-LE text"):
        open_text(codecs.BOM_UTF16_LE + b"a\0\x00\xd8")


def test_a_long_file_is_split_into_texts_at_line_ends() -> None:
    lines = [f"This is line {number}." for number in range(1000)]
    document = open_text("\n".join(lines).encode())
    assert 5 < len(document.texts) < 20
    assert all(len(source.text) <= 2000 for source in document.texts)
    assert [line for source in document.texts for line in source.text.split("\n")] == lines


LONG = 40_000


@pytest.mark.parametrize(
    "line",
    [
        "Das ist ein Satz. " * (LONG // 18),
        "wort " * (LONG // 5),
        "\N{CJK UNIFIED IDEOGRAPH-4E2D}。" * (LONG // 2),
        "x" * LONG + " Das ist ein Satz.",
    ],
)
def test_a_long_line_is_split_between_sentences_or_words(line: str) -> None:
    text = f"erste\n{line}\nletzte"
    document = open_text(text.encode())
    said = [source.text for source in document.texts]
    assert all(len(source) <= 16_000 or len(source.split()) == 1 for source in said)
    assert "".join("".join(said).split()) == "".join(text.split())
    starts = ("erste", "letzte", "Das", "wort", "x", "\N{CJK UNIFIED IDEOGRAPH-4E2D}")
    assert all(source.startswith(starts) for source in said)
    assert unchanged(document) == text.encode()


def test_characters_are_counted_without_surrounding_blanks() -> None:
    assert characters(open_text("  schön\n\n".encode())) == 5
    assert characters(open_text(b" ... \n")) == 0


ENCODED = {
    ("de", "cp1252"): "Die Straße ist gesperrt. Er sagte: „Schöne Grüße“ – und ging.",
    ("fr", "cp1252"): "Le café est fermé, mais l’été arrive déjà. À bientôt, garçon !",  # noqa: RUF001
    ("pl", "cp1250"): "Zażółć gęślą jaźń. Książka leży na półce, a kot śpi.",
    ("cs", "cp1250"): "Příliš žluťoučký kůň úpěl ďábelské ódy. Děkuji, že jste přišel.",
    ("ru", "cp1251"): "Собака бежит по снегу. Мы идём домой, потому что уже поздно.",
    ("el", "cp1253"): "Ο σκύλος τρέχει στο χιόνι. Πάμε σπίτι.",  # noqa: RUF001
    ("ja", "cp932"): "犬が雪の中を走る。私たちは家に帰ります。",
    ("zh", "gb18030"): "一只狗在雪地里奔跑。我们回家吧，已经很晚了。",
}


@pytest.mark.parametrize(("language", "encoding"), ENCODED)
def test_text_in_the_usual_encoding_of_its_language_is_read(language: str, encoding: str) -> None:
    text = ENCODED[language, encoding]
    assert decode(text.encode(encoding), language).text == text
    assert decode(text.encode(encoding)).text == text
    assert decode("café noir".encode("cp1252")).text == "café noir"


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.html"])
def test_a_translation_keeps_the_encoding_if_it_can(name: str) -> None:
    document = open_document(name, "Schöne Grüße".encode("cp1252"), Languages("de", "fr"))
    assert document.replaced(["très bien"]) == "très bien".encode("cp1252")


def test_a_translation_with_other_letters_becomes_utf_8() -> None:
    content = "1\n00:00:01,000 --> 00:00:02,000\nSchöne Grüße\n".encode("cp1252")
    document = open_document("a.srt", content, Languages("de", "ru"))
    assert document.replaced(["Привет"]).decode("utf-8-sig").endswith("\nПривет\n")  # noqa: RUF001


@given(st.text(alphabet="a \r\n", max_size=30))
def test_joined_lines_are_the_whole_text(text: str) -> None:
    lines = lines_of(text)
    assert "".join(line for _, line in lines) == text
    assert all(text[start:].startswith(line) for start, line in lines)
