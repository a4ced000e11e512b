"""Text functions that training and the service share: normalisation, numbers, repetition
loops, scripts without blanks."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from itertools import groupby

UNSPACED = "".join(
    (
        "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff",  # Thai to Khmer
        "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3040-\u30ff\u3100-\u312f\u31f0-\u31ff",
        "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff",  # Han, kana
    )
)
"""Characters of scripts without blanks between words, as in a class of a regular expression."""

_NUMBER = re.compile(r"\d+(?:[.,:'\u2019\u202f ]\d+)*")
_LOOP = re.compile(
    r"(?i)(?:^|\s)(\S+(?:\s\S+){0,7}?)(?:\s\1){2,}(?=\s|\W*$)"
    r"|([^\W\d_]{2,8}?)\2{2,}|(\S)\3{5,}"
)
"""Up to eight words three times in a row, two to eight letters three times, or one character six
times."""


class _Visible(dict[int, int | str | None]):
    """Table for ``str.translate``: white space and control characters become blanks, invisible
    characters are removed."""

    def __missing__(self, codepoint: int) -> int | str | None:
        character = chr(codepoint)
        category = unicodedata.category(character)
        seen: int | str | None = codepoint
        if category == "Cf" and character != "\u200d":
            seen = None
        elif category == "Cc" or character.isspace():
            seen = " "
        # Requests could otherwise fill the table with a million characters.
        if codepoint < _MOST_KEPT:
            self[codepoint] = seen
        return seen


_MOST_KEPT = 0x3000
_VISIBLE = _Visible()
_JAMO = range(0x1160, 0x1200)
"""Vowels and final consonants of Hangul, which join the character before them."""


def visible(text: str) -> str:
    """NFC text without control and zero-width characters, with every run of blanks collapsed to
    one, and without blanks at the ends."""
    # All characters that the table changes are not printable.
    seen = text if text.isprintable() else text.translate(_VISIBLE)
    # Composed last, because an invisible character may have separated a letter from its accent.
    return " ".join(_composed(seen).split())


def visible_origins(text: str) -> tuple[tuple[int, int], ...]:
    """The span in ``text`` that each character of ``visible(text)`` stands for, in order."""
    kept: list[tuple[int, int]] = []
    after_blank = True
    for start, end in _clusters(text):
        for character in _composed(text[start:end].translate(_VISIBLE)):
            if character != " " or not after_blank:
                kept.append((start, end))
            after_blank = character == " "
    if kept and after_blank:
        kept.pop()
    return tuple(kept)


def _composed(text: str) -> str:
    """The text in NFC, in linear time.

    ``unicodedata.normalize`` holds the interpreter lock, and takes quadratic time for a long run of
    accents that are not in canonical order.
    """
    if unicodedata.is_normalized("NFC", text):
        return text
    ordered: list[str] = []
    decomposed = "".join(unicodedata.normalize("NFD", character) for character in text)
    for _, characters in groupby(decomposed, lambda one: unicodedata.combining(one) > 0):
        ordered += sorted(characters, key=unicodedata.combining)
    return unicodedata.normalize("NFC", "".join(ordered))


def _clusters(text: str) -> Iterator[tuple[int, int]]:
    """Spans of characters with the accents and the invisible characters after them.

    Characters of different clusters do not compose.
    """
    start = 0
    for end in range(1, len(text) + 1):
        if end == len(text) or not _joins(text[end]):
            yield start, end
            start = end


def _joins(character: str) -> bool:
    return (
        unicodedata.category(character).startswith("M")
        or ord(character) in _JAMO
        or not character.translate(_VISIBLE)
    )


def numbers(text: str) -> Counter[str]:
    """Count of each number. Separators within a number are left out: ``1,000`` and ``1.000`` are
    both ``1000``."""
    return Counter("".join(filter(str.isdecimal, found)) for found in _NUMBER.findall(text))


def repeats_itself(text: str) -> bool:
    """Whether a text has a repetition loop, which translation models fall into."""
    return _LOOP.search(text) is not None
