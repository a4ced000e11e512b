"""Reads and writes plain text files, split into texts of many lines each."""

from __future__ import annotations

import re
from collections.abc import Iterator

from service.documents.containers.encoding import decode
from service.documents.containers.splicing import Place, SplicedDocument
from service.documents.types import UNKNOWN, Document, Languages, MarkedSource

_CHARACTERS = 2_000
"""Maximum length of a text, unless a line is longer."""
_LONGEST_LINE = 16_000
"""A longer line becomes several texts, cut where a sentence ends, else at a blank."""
_SENTENCE_END = re.compile(r"[.!?…]['\"’”»)\]]*\s+(?=[^\W\d_])|[。！？]")  # noqa: RUF001
_BLANK = re.compile(r"\s")


def open_text(content: bytes, languages: Languages = UNKNOWN) -> Document:
    """Decode a file; raises ``BrokenDocument``."""
    file = decode(content, languages.source)
    return SplicedDocument(file, "text/plain", list(_places(file.text)))


def _places(text: str) -> Iterator[Place]:
    start = end = 0
    for line in text.split("\n"):
        after = min(end + len(line) + 1, len(text))
        if end > start and after - start > _CHARACTERS:
            yield from _place(text, start, end)
            start = end
        for cut in _cuts(text, start, after):
            yield from _place(text, start, cut)
            start = cut
        end = after
    yield from _place(text, start, end)


def _cuts(text: str, start: int, end: int) -> Iterator[int]:
    """Yield the places at which a long line is divided. A word is never divided."""
    while end - start > _LONGEST_LINE:
        after = start + _LONGEST_LINE
        ends = [found.end() for found in _SENTENCE_END.finditer(text, start, after)]
        blank = text.rfind(" ", start, after)
        cut = ends[-1] if ends else blank
        if cut <= start:
            found = _BLANK.search(text, after, end)
            cut = found.start() if found else end
        if cut < end:
            yield cut
        start = cut


def _place(text: str, start: int, end: int) -> Iterator[Place]:
    """The text between two offsets, without surrounding blanks."""
    part = text[start:end]
    start += len(part) - len(part.lstrip())
    end -= len(part) - len(part.rstrip())
    if any(character.isalnum() for character in text[start:end]):
        yield Place(start, end, MarkedSource(text[start:end]), str)
