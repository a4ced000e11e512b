"""Draws attention maps as a PNG heat map: one panel, or a sheet with one panel per head.

Sizes are computed here rather than by a layout engine. The same maps therefore give the same bytes,
and long sentences a picture of bounded size: cells shrink, then labels are left out. matplotlib is
imported when the first picture is drawn, which takes about half a second.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from service.translation.attention import Maps, numbered

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_PIXELS = 4096
"""Bound of the width and of the height."""

_PIXELS_PER_INCH = 144
_CELL = 0.3
"""Inches; the largest side of a cell."""
_LONGEST_PANEL, _LONGEST_OF_SHEET, _SHORTEST_PANEL = 9.0, 3.6, 0.6
"""Inches of a panel's side: at most when alone, at most in a sheet, and at least."""
_PANELS_ABREAST = 4
_LEAST_LABEL_SPACING = 0.1
_LARGEST_FONT = 9.0
_LONGEST_LABEL = 16
_FONT = "DejaVu Sans"
"""Bundled with matplotlib, so labels look the same on every machine."""
_NO_GLYPH = "□"
_COLOURS = ("#fcfbf8", "#d3e0ee", "#86aed6", "#3a6fb5", "#173f7d", "#0a1d45")
_INK, _PALE = "#22262e", "#c9ccd3"
_NAMES = {
    "cross": ("cross-attention", "translation", "source"),
    "encoder": ("encoder self-attention", "source", "source"),
    "decoder": ("decoder self-attention", "translation so far", "translation so far"),
}


@dataclass(frozen=True, slots=True)
class _Sheet:
    """Layout of a picture, in inches from the upper left corner."""

    abreast: int
    lines: int
    panel: tuple[float, float]
    labels: tuple[float, float]
    """Space for labels: left of the panels, and above them."""
    fonts: tuple[float, float]
    """Sizes of row labels and column labels, in points."""
    steps: tuple[int, int]
    """Distance between labelled rows, and between labelled columns."""

    gap = 0.32
    margin = 0.25
    title = 0.5
    bar = 0.75

    @property
    def size(self) -> tuple[float, float]:
        width = self.labels[0] + self.abreast * (self.panel[0] + self.gap) + self.bar
        height = self.title + self.labels[1] + self.lines * (self.panel[1] + self.gap)
        return width + 2 * self.margin, height + 2 * self.margin

    def place(self, column: int, line: int) -> tuple[float, float, float, float]:
        """Left, bottom, width and height of a panel as fractions of the picture."""
        width, height = self.size
        left = self.margin + self.labels[0] + column * (self.panel[0] + self.gap)
        top = self.margin + self.title + self.labels[1] + line * (self.panel[1] + self.gap)
        top += self.gap / 2
        return (
            left / width,
            1 - (top + self.panel[1]) / height,
            self.panel[0] / width,
            self.panel[1] / height,
        )


def draw(maps: Maps) -> bytes:
    """A PNG of all maps on one colour scale. Blocks; call from one thread at a time."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize
    from matplotlib.figure import Figure

    sheet = _plan(maps)
    figure = Figure(figsize=sheet.size, facecolor="white")
    canvas = FigureCanvasAgg(figure)
    scale = Normalize(0, max(float(maps.weights_LHRC.max(initial=0)), 1e-6))
    colours = LinearSegmentedColormap.from_list("dragoman", _COLOURS)
    written = _Writer()
    for line, column, layer, head in _places(maps, sheet):
        axes = figure.add_axes(sheet.place(column, line))
        axes.imshow(
            maps.weights_LHRC[layer, head],
            cmap=colours,
            norm=scale,
            aspect="auto",
            interpolation="nearest",
        )
        _label(axes, maps, sheet, written, left=column == 0, top=line == 0)
        if maps.weights_LHRC.shape[:2] != (1, 1):
            axes.annotate(
                _panel_name(maps, layer, head),
                (0.5, 0),
                (0, -4),
                xycoords="axes fraction",
                textcoords="offset points",
                ha="center",
                va="top",
                fontsize=7,
                color=_INK,
                family=_FONT,
            )
    _title(figure, maps, sheet, written)
    _bar(figure, sheet, ScalarMappable(scale, colours))
    file = io.BytesIO()
    dots = min(_PIXELS_PER_INCH, *(MOST_PIXELS / side for side in sheet.size))
    # Without matplotlib's version, so that the bytes do not depend on it.
    canvas.figure.savefig(file, format="png", dpi=dots, metadata={"Software": None})
    return file.getvalue()


def _plan(maps: Maps) -> _Sheet:
    layers, heads, rows, columns = maps.weights_LHRC.shape
    abreast = heads if layers > 1 and heads <= 2 * _PANELS_ABREAST else min(heads, _PANELS_ABREAST)
    lines = layers * math.ceil(heads / abreast)
    longest = _LONGEST_PANEL if layers == heads == 1 else _LONGEST_OF_SHEET
    cell = min(_CELL, longest / max(rows, columns, 1))
    panel = max(columns * cell, _SHORTEST_PANEL), max(rows * cell, _SHORTEST_PANEL)
    row_step, row_font = _spacing(panel[1], rows)
    column_step, column_font = _spacing(panel[0], columns)
    return _Sheet(
        abreast,
        lines,
        panel,
        (_room(maps.rows, row_font), _room(maps.columns, column_font)),
        (row_font, column_font),
        (row_step, column_step),
    )


def _spacing(length: float, count: int) -> tuple[int, float]:
    """Number of cells from label to label, and the font size of the labels in points."""
    cell = length / max(count, 1)
    step = max(1, math.ceil(_LEAST_LABEL_SPACING / cell))
    return step, min(_LARGEST_FONT, step * cell * 72 * 0.85)


def _room(labels: Sequence[str], font: float) -> float:
    longest = max((min(len(label), _LONGEST_LABEL) for label in labels), default=0)
    return 0.4 + longest * font * 0.6 / 72


def _places(maps: Maps, sheet: _Sheet) -> Iterator[tuple[int, int, int, int]]:
    """Line, column, layer and head of every panel. Each layer starts a line."""
    layers, heads = maps.weights_LHRC.shape[:2]
    for layer in range(layers):
        for head in range(heads):
            line, column = divmod(head, sheet.abreast)
            yield layer * (sheet.lines // layers) + line, column, layer, head


def _label(
    axes: Axes, maps: Maps, sheet: _Sheet, written: _Writer, *, left: bool, top: bool
) -> None:
    rows = range(0, len(maps.rows), sheet.steps[0])
    columns = range(0, len(maps.columns), sheet.steps[1])
    axes.tick_params(length=0, pad=3, top=False, labeltop=top, labelbottom=False, labelleft=left)
    axes.set_xticks(list(columns) if top else [])
    axes.set_yticks(list(rows) if left else [])
    for spine in axes.spines.values():
        spine.set_color(_PALE)
        spine.set_linewidth(0.6)
    _, row_name, column_name = _NAMES[maps.kind]
    if top:
        written.on_axis(axes.set_xticklabels, [maps.columns[i] for i in columns], sheet.fonts[1])
        for text in axes.get_xticklabels():
            text.set(rotation=90, ha="center", va="bottom")
        axes.xaxis.set_label_position("top")
        axes.set_xlabel(column_name, fontsize=8, color=_INK, family=_FONT, style="italic")
    if left:
        written.on_axis(axes.set_yticklabels, [maps.rows[i] for i in rows], sheet.fonts[0])
        axes.set_ylabel(row_name, fontsize=8, color=_INK, family=_FONT, style="italic")


def _panel_name(maps: Maps, layer: int, head: int) -> str:
    names = []
    if len(numbered(maps.layers)) > 1:
        names.append(f"layer {numbered(maps.layers)[layer]}")
    if maps.heads != "mean":
        names.append(f"head {numbered(maps.heads)[head]}")
    return ", ".join(names)


def _title(figure: Figure, maps: Maps, sheet: _Sheet, written: _Writer) -> None:
    width, height = sheet.size
    layers, heads = numbered(maps.layers), numbered(maps.heads)
    parts = [
        _NAMES[maps.kind][0],
        "mean of layers"
        if maps.layers == "mean"
        else f"layer{'s' * (len(layers) > 1)} {', '.join(map(str, layers))}",
        "mean of heads"
        if maps.heads == "mean"
        else f"head{'s' * (len(heads) > 1)} {', '.join(map(str, heads))}",
    ]
    for text, size, weight, y in (
        (maps.model, 11, "bold", 0.12),
        (" · ".join(parts), 9, "normal", 0.34),
    ):
        written.at(
            figure,
            sheet.margin / width,
            1 - (sheet.margin + y) / height,
            text,
            fontsize=size,
            weight=weight,
        )


def _bar(figure: Figure, sheet: _Sheet, colours: Any) -> None:
    left, bottom, width, height = sheet.place(sheet.abreast - 1, 0)
    place = (left + width + 0.15 / sheet.size[0], bottom, 0.12 / sheet.size[0], height)
    bar = figure.colorbar(colours, cax=figure.add_axes(place))
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=7, length=2, color=_PALE, labelcolor=_INK)


class _Writer:
    """Writes arbitrary text: never parsed as a formula, with a box for each missing glyph."""

    def __init__(self) -> None:
        from matplotlib.font_manager import findfont, get_font

        self._known = frozenset(get_font(findfont(_FONT)).get_charmap())

    def on_axis(self, put: Any, labels: Sequence[str], font: float) -> None:
        shown = [self._shown(label) for label in labels]
        put(shown, fontsize=font, family=_FONT, color=_INK, parse_math=False)

    def at(self, figure: Figure, x: float, y: float, text: str, **look: Any) -> None:
        figure.text(
            x,
            y,
            self._shown(text, 200),
            family=_FONT,
            color=_INK,
            va="top",
            parse_math=False,
            **look,
        )

    def _shown(self, label: str, longest: int = _LONGEST_LABEL) -> str:
        if len(label) > longest:
            label = label[: longest - 1] + "…"
        return "".join(c if c.isprintable() and ord(c) in self._known else _NO_GLYPH for c in label)
