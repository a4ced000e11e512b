"""Chooses, among finished hypotheses, the one that keeps the figures and signs of the source."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from models.text import numbers
from service.engine.types import Decoded, FinishReason

_SIGNS = frozenset("%\u2030°§&@#\\~^_=<>|*+/{}[]")
_SIGN_CATEGORIES = frozenset(("Sc", "So"))
"""Currencies, and other symbols such as © and U+FFFD."""
_NO_LETTER = re.compile(r"[^\w\s]|[\d_]")
"""Matches every digit and every sign, and far fewer characters than a text has."""


def has_figures(text: str) -> bool:
    """Whether a text has a digit or a sign."""
    return any(c.isdecimal() or _is_sign(c) for c in _NO_LETTER.findall(text))


def best_by_figures(
    source: str, decoded: Decoded, decode: Callable[[tuple[int, ...]], str]
) -> Decoded:
    """The hypothesis with the fewest missing and added figures and signs.

    Of equal ones, the one with the best score.

    ``decoded`` is from a search with ``all_finished`` for one hypothesis. ``decode`` converts
    token ids to text. A hypothesis without text is never preferred.
    """
    wanted = _marks(source)
    best, fewest = decoded.hypotheses[0], -1
    for hypothesis in decoded.hypotheses:
        text = decode(hypothesis.token_ids)
        found = _marks(text)
        differences = (wanted - found).total() + (found - wanted).total()
        if fewest < 0 or (differences < fewest and text.strip()):
            best, fewest = hypothesis, differences
        if not fewest:
            break
    if best is decoded.hypotheses[0]:
        return replace(decoded, hypotheses=(best,))
    return replace(decoded, hypotheses=(best,), finish_reason=FinishReason.COMPLETE)


def _marks(text: str) -> Counter[str]:
    """Count of each number and of each sign."""
    return numbers(text) + Counter(filter(_is_sign, _NO_LETTER.findall(text)))


def _is_sign(character: str) -> bool:
    return character in _SIGNS or unicodedata.category(character) in _SIGN_CATEGORIES
