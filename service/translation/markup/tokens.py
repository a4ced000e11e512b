"""What the readers of HTML and XML find, in one form.

The ``raw`` of all tokens together is the text, to the byte. ``open`` and ``close`` are nested
properly: where a text does not close an element, a ``close`` with nothing in it does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True, slots=True)
class Token:
    """``empty`` is an element without contents, or with contents that are nobody's business.

    ``silent`` is what does not show, such as a comment or an end tag that ends nothing.
    """

    kind: Literal["text", "open", "close", "empty", "silent"]
    raw: str
    breaks: bool = False
    """It ends sentences."""
    untouched: bool = False
    """What it holds is not translated."""
    flowing: bool = False
    """Any blanks of this text are as good as one."""


Decoder = Callable[[str], list[tuple[str, str]]]
"""Takes a raw text apart, into raw and plain; parts that are not alike cannot be cut."""


def literal(raw: str) -> list[tuple[str, str]]:
    return [(raw, raw)]


def gathered(tokens: Iterable[Token]) -> Iterator[Token]:
    """Make one token of each element that is untouched, and of each that holds nothing."""
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
