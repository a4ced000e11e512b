"""Final full stops: those that a translation has and its source lacks."""

from __future__ import annotations

import re
import unicodedata

_FINAL = frozenset(
    ".!?…:;\u203c\u2047\u2048\u2049"
    "\u3002\uff61\uff0e\uff01\uff1f\uff1a\uff1b"  # Chinese and Japanese
    "\u061b\u061f\u06d4\u0964\u0965\u0589\u1362"  # Arabic, Devanagari, Armenian, Ethiopic
)
_FULL_STOPS = frozenset(".\u3002\uff61\uff0e")
_ABBREVIATION = re.compile(r"(?:.*[^\w.])?(?:[^\W\d_]{1,2}\.){2,}", re.DOTALL)
"""Matches a text that ends with an abbreviation such as U.S. or p.m."""


def added_full_stop(source: str, target: str) -> int | None:
    """The offset of a final full stop in ``target`` that ``source`` lacks, or ``None``.

    Closing quotation marks and brackets may follow it. The result is ``None`` if the source ends
    with a mark that ends sentences or clauses (``. ! ? … : ;``). The dots of an ellipsis, of an
    abbreviation (``U.S.``), and of an ordinal number (``der 3.`` for ``the third``) do not count.
    """
    end = _without_closing(target)
    if end < 2 or target[end - 1] not in _FULL_STOPS:
        return None
    before = target[end - 2]
    source_end = _without_closing(source)
    if source_end and source[source_end - 1] in _FINAL:
        return None
    if before.isspace() or before in _FINAL or _ABBREVIATION.fullmatch(target[:end]):
        return None
    if before.isdecimal() and not (source_end and source[source_end - 1].isdecimal()):
        return None
    return end - 1


def ends_sentence(text: str) -> bool:
    """Whether a text ends with a mark that ends sentences or clauses."""
    end = _without_closing(text)
    return bool(end) and text[end - 1] in _FINAL


def _without_closing(text: str) -> int:
    """The end of a text before trailing blanks, closing quotation marks and closing brackets."""
    end = len(text)
    while end and (
        text[end - 1].isspace()
        or text[end - 1] in "\"'"
        or unicodedata.category(text[end - 1]) in ("Pe", "Pf", "Pi")
    ):
        end -= 1
    return end
