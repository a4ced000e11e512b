from __future__ import annotations

import pytest

from service.documents import (
    SUPPORTED,
    BrokenDocument,
    Languages,
    UnsupportedDocument,
    open_document,
)

TEXTS = (".txt", ".srt", ".vtt", ".html", ".htm", ".md", ".po")
"""Formats of plain text with an encoding."""


def test_the_extension_selects_the_format_regardless_of_case() -> None:
    assert open_document("README.MD", b"# Hi").media_type == "text/markdown"
    assert open_document("a.b.txt", b"Hi").media_type == "text/plain"
    assert open_document("index.htm", b"Hi").media_type == "text/html"


@pytest.mark.parametrize("name", ["report.pdf", "README", "", ".txt", "a." + "x" * 1000])
def test_other_extensions_are_refused_with_a_list_of_the_supported_ones(name: str) -> None:
    with pytest.raises(
        UnsupportedDocument, match=r"supported are \.txt, \.srt, \.vtt, \.html"
    ) as refusal:
        open_document(name, b"")
    assert refusal.value.supported == SUPPORTED
    assert len(str(refusal.value)) < 250


@pytest.mark.parametrize("extension", TEXTS)
def test_an_empty_file_has_nothing_to_translate_and_stays_empty(extension: str) -> None:
    document = open_document("a" + extension, b"")
    assert document.texts == ()
    assert document.replaced([]) == b""


@pytest.mark.parametrize("extension", TEXTS)
def test_text_that_is_no_encoding_is_refused_with_the_position_of_the_first_bad_byte(
    extension: str,
) -> None:
    with pytest.raises(BrokenDocument, match="byte 3 is not UTF-8 text; save it as UTF-8"):
        open_document("a" + extension, b"caf\xe9\x81 noir\x8d\x01\x02", Languages("fr", "en"))
    with pytest.raises(BrokenDocument, match="character 1 is a null character"):
        open_document("a" + extension, b"a\0 word")


def test_a_wrong_number_of_translations_raises_value_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        open_document("a.txt", b"Hi").replaced([])
