"""Markup options of a request, and the error for malformed XML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from service.text.errors import TranslationError


@dataclass(frozen=True, slots=True)
class Markup:
    """Markup kind and tag options. Tag names are in lower case for HTML, case-sensitive for XML."""

    kind: Literal["text", "html", "xml"] = "text"
    ignore_tags: frozenset[str] = frozenset()
    """Tags whose contents are not translated."""
    splitting_tags: frozenset[str] = frozenset()
    """Tags that end sentences, besides those of HTML or found by ``outline_detection``."""
    non_splitting_tags: frozenset[str] = frozenset()
    """Tags that never end sentences; overrides ``splitting_tags``."""
    outline_detection: bool = True
    """XML only: whether tags without text next to them end sentences."""


PLAIN = Markup()

MOST_MARKS = 1_000
"""Tags and placeholders in one sentence. Each is placed in every hypothesis."""


class TooMuchMarkup(TranslationError):
    """A sentence has more tags and placeholders than can be placed quickly."""

    def __init__(self, marks: int) -> None:
        super().__init__(
            f"a sentence has {marks} tags and placeholders; at most {MOST_MARKS} are placed"
        )
        self.marks = marks


class MalformedMarkup(TranslationError, ValueError):
    """The XML is not well formed. Lines count from 1, columns from 0."""

    def __init__(self, reason: str, line: int, column: int) -> None:
        super().__init__(f"the XML is not well formed at line {line}, column {column}: {reason}")
        self.reason = reason
        self.line = line
        self.column = column
