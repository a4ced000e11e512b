"""Common token type of the HTML and XML tokenizers.

The concatenated ``raw`` of all tokens is the text, to the byte. ``open`` and ``close`` are properly
nested: an element that the text does not close gets a ``close`` with empty ``raw``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from service.text.markup.placeholders import is_one

_LINK = re.compile(r"<[aA][\s>]")
_MOST_HELD = 50
"""Tokens in a link that is still looked at as a whole."""


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


def whole_links(tokens: Iterable[Token], decode: Decoder) -> Iterator[Token]:
    """Merge each link whose text is one address, mention or hashtag into one ``empty`` token.

    Such a text may be divided by tags: ``<a>@<span>anna</span></a>``.
    """
    held: list[Token] = []
    depth = 0
    for token in tokens:
        if not held and not (token.kind == "open" and _LINK.match(token.raw)):
            yield token
            continue
        held.append(token)
        depth += (token.kind == "open") - (token.kind == "close")
        if depth == 0 and _is_whole(held, decode):
            yield replace(held[0], kind="empty", raw="".join(t.raw for t in held), untouched=True)
        elif depth == 0 or token.breaks or len(held) > _MOST_HELD:
            yield from held
        else:
            continue
        held, depth = [], 0
    yield from held


def _is_whole(link: Sequence[Token], decode: Decoder) -> bool:
    if any(token.breaks or token.kind == "empty" for token in link):
        return False
    parts = (decode(token.raw) for token in link if token.kind == "text")
    return is_one("".join(plain for part in parts for _, plain in part).strip())


def gathered(tokens: Iterable[Token]) -> Iterator[Token]:
    """Merge each element that is untouched or has no contents into one ``empty`` token."""
    pending: Token | None = None
    held: list[str] = []
    depth = 0
    for token in tokens:
        if pending is not None and not pending.untouched and token.kind != "close":
            yield pending
            pending = None
        if pending is not None:
            held.append(token.raw)
            depth += (token.kind == "open") - (token.kind == "close")
            if depth == 0:
                yield replace(pending, kind="empty", raw="".join(held))
                pending = None
        elif token.kind == "open":
            pending, held, depth = token, [token.raw], 1
        else:
            yield token
