"""Common token type of the HTML and XML tokenizers.

The concatenated ``raw`` of all tokens is the text, to the byte. ``open`` and ``close`` are properly
nested: an element that the text does not close gets a ``close`` with empty ``raw``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of marked-up text.

    ``empty`` is an element without contents or with untranslated contents. ``silent`` is invisible,
    such as a comment or an end tag without a start tag.
    """

    kind: Literal["text", "open", "close", "empty", "silent"]
    raw: str
    breaks: bool = False
    """Whether it ends a sentence."""
    untouched: bool = False
    """Whether its contents are not translated."""
    flowing: bool = False
    """Whether a run of blanks in this text equals one blank."""


Decoder = Callable[[str], list[tuple[str, str]]]
"""Splits raw text into pairs of raw and plain text; pairs that differ cannot be split further."""


def literal(raw: str) -> list[tuple[str, str]]:
    return [(raw, raw)]


def gathered(tokens: Iterable[Token]) -> Iterator[Token]:
    """Merge each element that is untouched or has no contents into one ``empty`` token."""
    pending: Token | None = None
    held: list[str] = []
    depth = 0
    for token in tokens:
        if pending is None:
            if token.kind == "open":
                pending, held, depth = token, [token.raw], 1
            else:
                yield token
        elif pending.untouched:
            held.append(token.raw)
            depth += (token.kind == "open") - (token.kind == "close")
            if depth == 0:
                yield replace(pending, kind="empty", raw="".join(held))
                pending = None
        elif token.kind == "close":
            yield replace(pending, kind="empty", raw=pending.raw + token.raw)
            pending = None
        else:
            yield pending
            pending = None
            if token.kind == "open":
                pending, held, depth = token, [token.raw], 1
            else:
                yield token
