"""Glyphs, lines and rules of a page, as PDFium finds them.

Lengths are points (1/72 inch). Positions are in a frame in which the text runs to the right: the
user space of the page, turned by ``turns`` quarters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

_LABEL = re.compile(r"[•▪◦‣·∙●○■□–—*-]|\(?(?:\d{1,3}|[a-zA-Z])[.)]")
Family = Literal["sans", "serif", "mono", "math"]
Source = tuple[int, ...]
"""Group of operators that show text: indices of nested forms, and of the group in its stream."""


@dataclass(frozen=True, slots=True)
class Style:
    """How glyphs look, apart from their size."""

    family: Family = "sans"
    bold: bool = False
    italic: bool = False
    colour: tuple[int, int, int] = (0, 0, 0)
    """Red, green and blue, 0 to 255."""
    script: Literal["", "above", "below"] = ""
    """Superscript or subscript."""


class Glyph(NamedTuple):
    """A character with its place on the baseline ``y``."""

    text: str
    left: float
    right: float
    y: float
    size: float
    turns: int
    style: Style
    source: Source
    after_space: bool
    """Whether a blank separates the glyph from the one before it."""


@dataclass(frozen=True, slots=True)
class Box:
    left: float
    bottom: float
    right: float
    top: float

    def turned(self, turns: int) -> Box:
        """The box in a frame that is turned by quarters."""
        (a, b), (c, d) = turned(self.left, self.bottom, turns), turned(self.right, self.top, turns)
        return Box(min(a, c), min(b, d), max(a, c), max(b, d))


def turned(x: float, y: float, turns: int) -> tuple[float, float]:
    """A point in the frame of text that is turned by quarters to the left; negative: back."""
    for _ in range(turns % 4):
        x, y = y, -x
    return x, y


@dataclass(frozen=True, slots=True)
class Line:
    """Adjacent glyphs on one baseline. Cells and columns of a row have lines of their own."""

    glyphs: tuple[Glyph, ...]

    @property
    def left(self) -> float:
        return min(glyph.left for glyph in self.glyphs)

    @property
    def right(self) -> float:
        return max(glyph.right for glyph in self.glyphs)

    @property
    def size(self) -> float:
        return max(glyph.size for glyph in self.glyphs)

    @property
    def y(self) -> float:
        return next(glyph.y for glyph in self.glyphs if glyph.size == self.size)

    @property
    def turns(self) -> int:
        return self.glyphs[0].turns

    @property
    def box(self) -> Box:
        return Box(self.left, self.y - 0.22 * self.size, self.right, self.y + 0.75 * self.size)

    @property
    def text(self) -> str:
        return "".join(" " * glyph.after_space + glyph.text for glyph in self.glyphs).strip()

    @property
    def is_label(self) -> bool:
        """Whether the line is a bullet or the number of an item."""
        return _LABEL.fullmatch(self.text) is not None

    @property
    def has_label(self) -> bool:
        """Whether the line begins with a bullet or the number of an item."""
        return _LABEL.fullmatch(self.text.partition(" ")[0]) is not None

    def words(self) -> Iterator[tuple[Glyph, ...]]:
        """Glyphs between blanks."""
        word: list[Glyph] = []
        for glyph in self.glyphs:
            if glyph.after_space and word:
                yield tuple(word)
                word = []
            word.append(glyph)
        if word:
            yield tuple(word)
