"""Composes letters with accents that are glyphs of their own, as TeX's first fonts have them."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from types import MappingProxyType

from service.documents.pages.types import Glyph

COMBINING = MappingProxyType(
    {
        **{"`": "\u0300", "´": "\u0301", "ˆ": "\u0302", "^": "\u0302", "˜": "\u0303"},  # noqa: RUF001
        **{"~": "\u0303", "¯": "\u0304", "˘": "\u0306", "˙": "\u0307", "¨": "\u0308"},
        **{"˚": "\u030a", "˝": "\u030b", "ˇ": "\u030c", "¸": "\u0327", "˛": "\u0328"},  # noqa: RUF001
    }
)
"""Combining characters of accents."""
_NEAR = 200
"""Glyphs between a letter and its accent: PDFium moves a high accent behind its line."""


def with_accents(glyphs: Sequence[Glyph]) -> list[Glyph]:
    """Glyphs with composed letters; an accent follows its letter, without text and width."""
    letters: dict[int, Glyph] = {}
    accents: dict[int, Glyph] = {}
    moved: set[int] = set()
    for number, accent in enumerate(glyphs):
        if accent.text not in COMBINING:
            continue
        for place in (number + 1, *range(number - 1, max(-1, number - _NEAR), -1)):
            letter = glyphs[place] if place < len(glyphs) else accent
            if place not in letters and _is_over(accent, letter):
                text = unicodedata.normalize("NFC", letter.text + COMBINING[accent.text])
                if len(text) == 1:
                    after = letter.after_space or (accent.after_space and place > number)
                    letters[place] = letter._replace(text=text, after_space=after)
                    accents[place] = letter._replace(
                        text="", left=letter.right, source=accent.source, after_space=False
                    )
                    moved.add(number)
                    break
    found: list[Glyph] = []
    for number, glyph in enumerate(glyphs):
        if number not in moved:
            found.append(letters.get(number, glyph))
            if number in accents:
                found.append(accents[number])
    return found


def _is_over(accent: Glyph, letter: Glyph) -> bool:
    centre = (accent.left + accent.right) / 2
    return (
        letter.text.isalpha()
        and letter.turns == accent.turns
        and letter.left <= centre <= letter.right
        and abs(accent.y - letter.y) < letter.size / 2
    )
