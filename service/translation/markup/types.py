"""How a text is marked up, and what a caller may say about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from service.translation.errors import TranslationError


@dataclass(frozen=True, slots=True)
class Markup:
    """Names of tags are in lower case for HTML, as they are for XML."""

    kind: Literal["text", "html", "xml"] = "text"
    ignore_tags: frozenset[str] = frozenset()
    """What they hold is not translated."""
    splitting_tags: frozenset[str] = frozenset()
    """They end sentences; beside those of HTML or those that ``outline_detection`` finds."""
    non_splitting_tags: frozenset[str] = frozenset()
    """They never do, not even if they are among ``splitting_tags``."""
    outline_detection: bool = True
    """XML only: whether tags that no text stands next to end sentences."""


PLAIN = Markup()


class MalformedMarkup(TranslationError, ValueError):
    """XML that no parser accepts. Lines count from 1, columns from 0."""

    def __init__(self, reason: str, line: int, column: int) -> None:
        super().__init__(f"the XML is not well formed at line {line}, column {column}: {reason}")
        self.reason = reason
        self.line = line
        self.column = column
