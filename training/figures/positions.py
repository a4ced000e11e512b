"""Figure of position encodings: the sinusoids of section 3.5, and learned embeddings."""

from __future__ import annotations

import torch.nn.functional as functional
from matplotlib.figure import Figure, SubFigure
from matplotlib.gridspec import GridSpec
from torch import Tensor

from training.figures.style import (
    COLOURS,
    DASHES,
    INK,
    SIGNED,
    WIDTH,
    legend_above,
    rows_ruled,
    styled,
)

_CURVES = 4


@styled
def positions(sinusoids_PW: Tensor, learned_PW: Tensor | None = None, name: str = "") -> Figure:
    """Tables of positions, ``[P, W]``, as heat map, as curves, and by cosine similarity.

    ``learned_PW`` are the embeddings that the run ``name`` has learned.
    """
    tables = [("Sinusoidal positions", sinusoids_PW)]
    if learned_PW is not None:
        tables.append((f"Positions learned by {name}", learned_PW))
    figure = Figure(figsize=(WIDTH, 6.6 * len(tables)))
    for i, (title, table_PW) in enumerate(tables):
        part = figure.add_subfigure(GridSpec(len(tables), 1, figure)[i])
        part.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold")
        _table(part, table_PW.detach().float())
    return figure


def likeness(table_PW: Tensor) -> Tensor:
    """The cosine between every two positions, ``[P, P]``; for sinusoids, 2/W times the product."""
    unit_PW = functional.normalize(table_PW, dim=1)
    return unit_PW @ unit_PW.T


def _table(part: SubFigure, table_PW: Tensor) -> None:
    length, width = table_PW.shape
    (whole, curves), (alike, rows) = part.subplots(2, 2)
    limit = float(table_PW.abs().max())
    image = whole.imshow(table_PW.numpy(), cmap=SIGNED, vmin=-limit, vmax=limit)
    whole.set(title="The table", xlabel="dimension", ylabel="position")
    part.colorbar(image, ax=whole, label="value").outline.set_visible(False)

    for i, dimension in enumerate(_dimensions(width)):
        curves.plot(
            table_PW[:, dimension].numpy(),
            color=COLOURS[i],
            linestyle=DASHES[i],
            label=f"dimension {dimension}",
        )
    curves.set(title="Some dimensions", xlabel="position", ylabel="value")
    rows_ruled(curves)
    legend_above(curves, ncols=2)

    alike_PP = likeness(table_PW)
    image = alike.imshow(alike_PP.numpy(), cmap=SIGNED, vmin=-1, vmax=1)
    alike.set(title="Likeness of two positions", xlabel="position", ylabel="position")
    part.colorbar(image, ax=alike, label="cosine").outline.set_visible(False)
    for i, position in enumerate((length // 8, length // 2, 7 * length // 8)):
        rows.plot(
            alike_PP[position].numpy(),
            color=COLOURS[i],
            linestyle=DASHES[i],
            label=f"to {position}",
        )
        rows.axvline(position, color=COLOURS[i], linewidth=0.8, alpha=0.5)
    rows.axhline(0, color=INK, linewidth=0.6)
    rows.set(title="Likeness to three positions", xlabel="position", ylabel="cosine")
    rows_ruled(rows)
    legend_above(rows, ncols=3)


def _dimensions(width: int) -> list[int]:
    """Neighbouring sine and cosine dimensions, of a fast and of a slower wave."""
    quick, slow = width // 16 * 2, width // 8 * 2
    return [quick, quick + 1, slow, slow + 1][:_CURVES]
