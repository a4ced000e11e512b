"""Text in pictures, and their resolution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MOST_PIXELS = 4096
"""Bound of the width and of the height of a picture."""
INK = "#22262e"
FONT = "DejaVu Sans"
"""Bundled with matplotlib, so labels look the same on every machine."""
LONGEST_LABEL = 16

_PIXELS_PER_INCH = 144
_NO_GLYPH = "□"


def resolution(size: tuple[float, float]) -> float:
    """Pixels per inch of a picture of this width and height in inches."""
    return min(_PIXELS_PER_INCH, *(MOST_PIXELS / side for side in size))


class LabelWriter:
    """Writes arbitrary text: never parsed as a formula, with a box for each missing glyph."""

    def __init__(self) -> None:
        from matplotlib.font_manager import findfont, get_font

        self._known = frozenset(get_font(findfont(FONT)).get_charmap())

    def __call__(self, setter: Callable[..., Any], text: str | list[str], **look: Any) -> None:
        shown = (
            self._with_boxes(text)
            if isinstance(text, str)
            else [self._label(each) for each in text]
        )
        setter(shown, family=FONT, color=INK, parse_math=False, **look)

    def _label(self, text: str) -> str:
        short = text if len(text) <= LONGEST_LABEL else text[: LONGEST_LABEL - 1] + "…"
        return self._with_boxes(short)

    def _with_boxes(self, text: str) -> str:
        return "".join(c if c.isprintable() and ord(c) in self._known else _NO_GLYPH for c in text)
