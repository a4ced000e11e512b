from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.documents.formats.text import open_text
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
