"""Figure of the attention maps of every head for one sentence and its translation, by layer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.layout_engine import PlaceHolderLayoutEngine
from torch import Tensor

from training.figures.style import GREY, PALE, SHARES, label_of, pieces_on, styled

Kind = Literal["encoder", "decoder", "cross"]

_NAMES: dict[Kind, tuple[str, str, str]] = {
    "encoder": ("Encoder self-attention", "source", "source"),
    "decoder": ("Decoder self-attention", "translation so far", "translation so far"),
    "cross": ("Cross-attention", "translation so far", "source"),
}
_ABREAST = 4
_LARGEST_CELL, _SMALLEST_CELL = 0.18, 0.11
"""Inches; the height of a cell is that of its label."""
_PANEL = 2.4
"""Panel width in inches above which cells shrink."""
_SMALLEST_PANEL = 1.4
_WIDEST = 11.0


@styled
def attention(
    kind: Kind, maps: Mapping[int, Tensor], rows: Sequence[str], columns: Sequence[str]
) -> Figure:
    """All heads of some layers; ``maps`` has ``[H, Q, K]`` by layer number.

    ``rows`` are the query pieces, ``columns`` the key pieces.
    """
    title, looking, looked_at = _NAMES[kind]
    rows, columns = ([label_of(piece) for piece in side] for side in (rows, columns))
    heads = len(next(iter(maps.values())))
    cell = min(_LARGEST_CELL, max(_SMALLEST_CELL, _PANEL / max(len(rows), len(columns))))
    width, height = (max(len(side) * cell, _SMALLEST_PANEL) for side in (columns, rows))
    font = min(9.0, 0.78 * 72 * cell)
    abreast = max(1, min(heads, _ABREAST, int(_WIDEST / width)))
    lines_per_layer = math.ceil(heads / abreast)
    lines = lines_per_layer * len(maps)
    left, above = _room(rows, font), _room(columns, font)
    gap, bar, head, foot = 0.16, 0.75, 0.7, 0.3
    total = (
        left + abreast * width + (abreast - 1) * gap + bar,
        head + above + lines * height + (lines - 1) * 2.2 * gap + foot,
    )
    figure = Figure(figsize=total, layout=PlaceHolderLayoutEngine(False, False))
    grid = GridSpec(
        lines,
        abreast,
        figure,
        left=left / total[0],
        right=1 - bar / total[0],
        top=1 - (head + above) / total[1],
        bottom=foot / total[1],
        wspace=gap / width,
        hspace=2.2 * gap / height,
    )
    for i, (layer, weights_HQK) in enumerate(maps.items()):
        for h in range(heads):
            line, column = i * lines_per_layer + h // abreast, h % abreast
            axes = figure.add_subplot(grid[line, column])
            axes.imshow(weights_HQK[h].numpy(), cmap=SHARES, vmin=0, vmax=1)
            pieces_on(axes, rows if column == 0 else None, columns if line == 0 else None)
            axes.tick_params(labelsize=font, pad=3)
            for spine in axes.spines.values():
                spine.set(visible=True, color=PALE)
            axes.annotate(
                f"layer {layer}, head {h + 1}",
                (0, 0),
                (0, -3),
                fontsize=9,
                color=GREY,
                xycoords="axes fraction",
                textcoords="offset points",
                va="top",
            )
    figure.text(
        0.15 / total[0], 1 - 0.16 / total[1], title, fontsize=13, fontweight="bold", va="top"
    )
    figure.text(
        0.15 / total[0],
        1 - 0.44 / total[1],
        f"rows: {looking}; columns: {looked_at}; · continues a word",
        fontsize=10,
        color=GREY,
        va="top",
    )
    place = (1 - (bar - 0.15) / total[0], 1 - (head + above + height) / total[1])
    beside = figure.add_axes((*place, 0.12 / total[0], height / total[1]))
    figure.colorbar(
        ScalarMappable(Normalize(0, 1), SHARES), cax=beside, ticks=np.linspace(0, 1, 5)
    ).outline.set_visible(False)
    return figure


def _room(labels: Sequence[str], font: float) -> float:
    return 0.2 + 0.62 * font / 72 * max(map(len, labels))
