"""Matplotlib style and deterministic file output of all figures.

The background is white, which suits light and dark pages. Colours are those of Okabe and Ito, which
the colour-blind can distinguish; lines also differ in more than colour.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ParamSpec

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font
from matplotlib.style import context
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from PIL import Image

INK, GREY, PALE = "#22262e", "#6d737e", "#e6e8ec"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#aa4499", "#e69f00", "#56b4e9", "#22262e")
DASHES: tuple[tuple[int, tuple[float, ...]], ...] = (
    (0, ()),
    (0, (5, 1.5)),
    (0, (1.5, 1.2)),
    (0, (6, 1.5, 1.5, 1.5)),
    (0, (8, 2)),
    (0, (3, 1.2, 1, 1.2, 1, 1.2)),
    (0, (1, 2.5)),
)
SHARES = LinearSegmentedColormap.from_list(
    "shares", ("#fbfaf7", "#d3e0ee", "#86aed6", "#3a6fb5", "#173f7d", "#0a1d45")
)
"""Colour map of shares, from 0 to 1."""
SIGNED = LinearSegmentedColormap.from_list(
    "signed", ("#0b3c6f", "#6ea6d0", "#fbfaf7", "#e3a06b", "#8f3f05")
)
"""Colour map from negative to positive, with white at 0."""

WIDTH = 9.0
"""Inches: width of most figures, about that of the documentation's pages."""

BLANK = "▁"
"""SentencePiece's character for a blank."""

_FONT = "DejaVu Sans"
"""Part of matplotlib, so labels look the same everywhere."""
_NO_GLYPH = "□"
_PIXELS_PER_INCH = 160
_MOST_PIXELS = 16_000
"""Largest width and height: figures of long sentences with many heads shrink to fit."""
_STYLE = {
    "figure.facecolor": "white",
    "figure.constrained_layout.use": True,
    "figure.titlesize": 13,
    "figure.titleweight": "bold",
    "font.family": _FONT,
    "font.size": 10,
    "text.color": INK,
    # Pieces and file names may hold dollar signs.
    "text.parse_math": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.labelsize": 10,
    "axes.labelcolor": INK,
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": False,
    "grid.color": PALE,
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.8,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.edgecolor": "none",
    "legend.framealpha": 0.9,
    "legend.fancybox": False,
    "legend.fontsize": 9,
    "image.interpolation": "none",
    "image.aspect": "auto",
    "svg.fonttype": "path",
    # Otherwise identifiers in the file are random.
    "svg.hashsalt": "dragoman",
}

P = ParamSpec("P")


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draw a figure in this style, whatever settings matplotlib has."""

    @functools.wraps(draw)
    def drawn(*arguments: P.args, **options: P.kwargs) -> Figure:
        with _style():
            return draw(*arguments, **options)

    return drawn


def write(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the path's suffix; the same figure gives the same bytes."""
    file = io.BytesIO()
    with _style():
        if path.suffix == ".svg":
            figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
            picture = file.getvalue()
        else:
            dots = min(
                _PIXELS_PER_INCH, *(_MOST_PIXELS / side for side in figure.get_size_inches())
            )
            figure.savefig(file, format="png", dpi=dots, metadata={"Software": None})
            picture = _smaller(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f"{path.suffix}.partial")
    partial.write_bytes(picture)
    partial.replace(path)


def with_boxes(label: str) -> str:
    """The label with a box for each character that the font lacks."""
    known = _glyphs()
    return "".join(c if c.isprintable() and ord(c) in known else _NO_GLYPH for c in label)


def label_of(piece: str) -> str:
    """A readable piece: ``▁word`` becomes ``word``, and ``word`` becomes ``·word``."""
    if piece.startswith(BLANK):
        return piece[len(BLANK) :] or BLANK
    return f"·{piece}" if piece[:1].isalnum() else piece


def rows_ruled(axes: Axes) -> None:
    """Pale horizontal grid lines."""
    axes.grid(axis="y")


def legend_above(axes: Axes, ncols: int) -> None:
    """A legend above the curves; makes room for it, so call it after other settings."""
    bottom, top = axes.get_ylim()
    ticks = [tick for tick in axes.get_yticks() if bottom <= tick <= top]
    axes.set_yticks(ticks)
    axes.set_ylim(bottom, top + 0.3 * (top - bottom))
    legend = axes.legend(loc="upper left", ncols=ncols, borderaxespad=0.1)
    legend.set_alignment("left")


def thousands(axes: Axes, steps: int = 6) -> None:
    """Readable and few tick labels of steps."""
    axes.locator_params(axis="x", nbins=steps)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))


def magnitudes(axes: Axes) -> None:
    """A logarithmic value axis with enough tick labels."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def cells_ruled(axes: Axes, rows: int, columns: int, colour: str = "white") -> None:
    """Lines between the cells of an image, without ticks."""
    axes.set_xticks([i - 0.5 for i in range(1, columns)], minor=True)
    axes.set_yticks([i - 0.5 for i in range(1, rows)], minor=True)
    axes.grid(which="minor", color=colour, linewidth=1.2)
    axes.tick_params(which="both", length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def pieces_on(axes: Axes, rows: Iterable[str] | None, columns: Iterable[str] | None) -> None:
    """Pieces beside the rows and above the columns of an image; ``None`` omits them."""
    axes.tick_params(length=0, top=False, labeltop=True, labelbottom=False)
    labels = [with_boxes(piece) for piece in columns or ()]
    axes.set_xticks(range(len(labels)), labels, rotation=90)
    labels = [with_boxes(piece) for piece in rows or ()]
    axes.set_yticks(range(len(labels)), labels)


def _style() -> AbstractContextManager[None]:
    # Based on the defaults, so that a user's matplotlib settings have no effect.
    return context(["default", _STYLE])


@functools.cache
def _glyphs() -> frozenset[int]:
    return frozenset(get_font(findfont(_FONT)).get_charmap())


def _smaller(file: io.BytesIO) -> bytes:
    """The PNG with a palette of 256 colours, at a third of its size."""
    file.seek(0)
    with Image.open(file) as image:
        palette = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    smaller = io.BytesIO()
    palette.save(smaller, format="png", optimize=True)
    return smaller.getvalue()
