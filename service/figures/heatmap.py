"""Draws attention maps as a PNG heat map: one panel, or a sheet with one panel per head.

matplotlib places panels, labels and colour bar. Long sentences give a picture of bounded size:
cells shrink, then labels are left out. matplotlib is imported when the first picture is drawn,
which takes about half a second.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.figures.labels import INK, LONGEST_LABEL, LabelWriter, resolution
from service.inspection.attention import Maps, numbered

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

_CELL = 0.3
"""Inches; the largest side of a cell."""
_LONGEST_PANEL, _LONGEST_OF_SHEET, _SHORTEST_PANEL = 9.0, 3.6, 0.6
"""Inches of a panel's side: at most when alone, at most in a sheet, and at least."""
_GAP, _MARGIN = 0.4, 1.2
"""Inches beside each panel, and of the picture for title and colour bar."""
_PANELS_ABREAST = 4
_LEAST_LABEL_SPACING = 0.1
_LARGEST_FONT = 9.0
_COLOURS = ("#fcfbf8", "#d3e0ee", "#86aed6", "#3a6fb5", "#173f7d", "#0a1d45")
_PALE = "#c9ccd3"
_NAMES = {
    "cross": ("cross-attention", "translation", "source"),
    "encoder": ("encoder self-attention", "source", "source"),
    "decoder": ("decoder self-attention", "translation so far", "translation so far"),
}


@dataclass(frozen=True, slots=True)
class _Sheet:
    """Grid of panels. Pairs are of rows and columns."""

    lines_per_layer: int
    abreast: int
    size: tuple[float, float]
    """Inches of the picture: width and height."""
    steps: tuple[int, int]
    """Distance from one label to the next."""
    fonts: tuple[float, float]
    """Sizes of the labels in points."""


def draw(maps: Maps) -> bytes:
    """A PNG of all maps on one colour scale. Blocks; call from one thread at a time."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize
    from matplotlib.figure import Figure

    layers, heads = maps.weights_LHRC.shape[:2]
    sheet, put = _plan(maps), LabelWriter()
    figure = Figure(figsize=sheet.size, facecolor="white", layout="constrained")
    panels = figure.subplots(layers * sheet.lines_per_layer, sheet.abreast, squeeze=False)
    scale = Normalize(0, max(float(maps.weights_LHRC.max(initial=0)), 1e-6))
    colours = LinearSegmentedColormap.from_list("dragoman", _COLOURS)
    for axes in panels.flat:
        axes.set_axis_off()
    for layer in range(layers):
        for head in range(heads):
            line, column = divmod(head, sheet.abreast)
            axes = panels[layer * sheet.lines_per_layer + line, column]
            _frame(axes)
            weights_RC = maps.weights_LHRC[layer, head]
            axes.imshow(
                weights_RC, cmap=colours, norm=scale, aspect="auto", interpolation="nearest"
            )
            if layers * heads > 1:
                put(axes.set_xlabel, _panel_name(maps, layer, head), fontsize=7)
    _label(panels, maps, sheet, put)
    bar = figure.colorbar(ScalarMappable(scale, colours), ax=panels, aspect=40, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=7, length=2, color=_PALE, labelcolor=INK)
    put(figure.suptitle, maps.model, fontsize=11, weight="bold")
    put(figure.supxlabel, _contents(maps), fontsize=9)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=resolution(sheet.size))
    return file.getvalue()


def _plan(maps: Maps) -> _Sheet:
    layers, heads, rows, columns = maps.weights_LHRC.shape
    abreast = heads if layers > 1 and heads <= 2 * _PANELS_ABREAST else min(heads, _PANELS_ABREAST)
    lines_per_layer = math.ceil(heads / abreast)
    longest = _LONGEST_PANEL if layers == heads == 1 else _LONGEST_OF_SHEET
    cell = min(_CELL, longest / max(rows, columns, 1))
    width, height = (max(count * cell, _SHORTEST_PANEL) for count in (columns, rows))
    row_step, row_font = _spacing(height, rows)
    column_step, column_font = _spacing(width, columns)
    size = (
        abreast * (width + _GAP) + _room(maps.rows, row_font) + _MARGIN,
        layers * lines_per_layer * (height + _GAP) + _room(maps.columns, column_font) + _MARGIN,
    )
    return _Sheet(lines_per_layer, abreast, size, (row_step, column_step), (row_font, column_font))


def _spacing(length: float, count: int) -> tuple[int, float]:
    """Number of cells from label to label, and the font size of the labels in points."""
    cell = length / max(count, 1)
    step = max(1, math.ceil(_LEAST_LABEL_SPACING / cell))
    return step, min(_LARGEST_FONT, step * cell * 72 * 0.85)


def _room(labels: Sequence[str], font: float) -> float:
    longest = max((min(len(label), LONGEST_LABEL) for label in labels), default=0)
    return longest * font * 0.6 / 72


def _frame(axes: Axes) -> None:
    axes.set_axis_on()
    axes.set(xticks=[], yticks=[])
    axes.tick_params(length=0, pad=3, top=False, labeltop=True, labelbottom=False)
    for spine in axes.spines.values():
        spine.set(color=_PALE, linewidth=0.6)


def _label(panels: NDArray[np.object_], maps: Maps, sheet: _Sheet, put: LabelWriter) -> None:
    """Label the rows of the first column of panels, and the columns of the first line."""
    _, row_name, column_name = _NAMES[maps.kind]
    rows = range(0, len(maps.rows), sheet.steps[0])
    for axes in panels[:, 0]:
        axes.set_yticks(list(rows))
        put(axes.set_yticklabels, [maps.rows[i] for i in rows], fontsize=sheet.fonts[0])
        put(axes.set_ylabel, row_name, fontsize=8, style="italic")
    columns = range(0, len(maps.columns), sheet.steps[1])
    for axes in panels[0]:
        axes.set_xticks(list(columns))
        labels = [maps.columns[i] for i in columns]
        put(axes.set_xticklabels, labels, fontsize=sheet.fonts[1], rotation=90)
        put(axes.set_title, column_name, fontsize=8, style="italic")


def _panel_name(maps: Maps, layer: int, head: int) -> str:
    names = []
    if len(numbered(maps.layers)) > 1:
        names.append(f"layer {numbered(maps.layers)[layer]}")
    if maps.heads != "mean":
        names.append(f"head {numbered(maps.heads)[head]}")
    return ", ".join(names)


def _contents(maps: Maps) -> str:
    parts = [_NAMES[maps.kind][0]]
    for name, chosen in (("layer", maps.layers), ("head", maps.heads)):
        if chosen == "mean":
            parts.append(f"mean of {name}s")
        else:
            parts.append(f"{name}{'s' * (len(chosen) > 1)} {', '.join(map(str, chosen))}")
    return " · ".join(parts)
