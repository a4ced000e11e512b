"""Reads and writes plain text files, split into texts of many lines each."""

from __future__ import annotations

from collections.abc import Iterator

from service.documents.encoding import decode
from service.documents.splicing import Place, SplicedDocument
from service.documents.types import Document, MarkedSource

_CHARACTERS = 2_000
"""Maximum length of a text; a longer line is one text."""


def open_text(content: bytes) -> Document:
    """Decode UTF-8, or by the byte order mark; raises ``BrokenDocument``."""
    file = decode(content)
    return SplicedDocument(file, "text/plain", list(_places(file.text)))


def _places(text: str) -> Iterator[Place]:
    start = end = 0
    for line in text.split("\n"):
        after = min(end + len(line) + 1, len(text))
        if end > start and after - start > _CHARACTERS:
            yield from _place(text, start, end)
            start = end
        end = after
    yield from _place(text, start, end)


def _place(text: str, start: int, end: int) -> Iterator[Place]:
    """The text between two offsets, without surrounding blanks."""
    said = text[start:end]
    start += len(said) - len(said.lstrip())
    end -= len(said) - len(said.rstrip())
    if any(character.isalnum() for character in text[start:end]):
        yield Place(start, end, MarkedSource(text[start:end]), str)
