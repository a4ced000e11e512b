"""Figure of the attention masks: causal mask (section 3.2.3), padding mask, and both combined."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.patches import Patch
from torch import Tensor

from models.transformer.attention import padding_mask, subsequent_mask
from training.figures.style import COLOURS, GREY, PALE, WIDTH, cells_ruled, pieces_on, styled

_VISIBLE, _HIDDEN = COLOURS[0], PALE


@styled
def masks(target_BT: Tensor, pad_id: int, pieces: Sequence[Sequence[str]]) -> Figure:
    """The decoder's masks for a batch of targets; ``pieces`` are the ids as words."""
    sentences, length = target_BT.shape
    subsequent_TT = subsequent_mask(length)
    padding_B11T = padding_mask(target_BT, pad_id)
    both_BTT = (subsequent_TT & padding_B11T)[:, 0]
    figure = Figure(figsize=(WIDTH, 7.4))
    figure.suptitle("What a position may look at", x=0.01, ha="left")
    halves = GridSpec(2, 1, figure, height_ratios=(1, 1.08))
    above, below = figure.add_subfigure(halves[0]), figure.add_subfigure(halves[1])
    left, right = above.subplots(1, 2, width_ratios=(1, 1.9))
    positions = [str(t) for t in range(1, length + 1)]
    _panel(left, subsequent_TT, positions, positions)
    left.set_title("Subsequent mask: the future is hidden")
    left.set_ylabel("position that looks")
    _panel(right, padding_B11T[:, 0, 0], [f"sentence {b + 1}" for b in range(sentences)], positions)
    right.set_title("Padding mask: fillers are hidden")
    for b in range(sentences):
        for t in range(length):
            visible = bool(padding_B11T[b, 0, 0, t])
            right.text(
                t,
                b,
                pieces[b][t],
                ha="center",
                va="center",
                fontsize=9,
                color="white" if visible else GREY,
            )
    below.suptitle(
        "Both together: self-attention in the decoder",
        x=0.01,
        ha="left",
        fontsize=11,
        fontweight="normal",
    )
    for b, axes in enumerate(np.atleast_1d(below.subplots(1, sentences))):
        _panel(axes, both_BTT[b], pieces[b], pieces[b])
        axes.set_xlabel(f"sentence {b + 1}")
    figure.legend(
        handles=[Patch(color=_VISIBLE, label="visible"), Patch(color=_HIDDEN, label="hidden")],
        loc="upper right",
        ncols=2,
    )
    return figure


def _panel(axes: Axes, mask_RC: Tensor, rows: Sequence[str], columns: Sequence[str]) -> None:
    axes.imshow(mask_RC.numpy(), cmap=ListedColormap([_HIDDEN, _VISIBLE]), vmin=0, vmax=1)
    pieces_on(axes, rows, columns)
    if all(column.isdigit() for column in columns):
        axes.tick_params(axis="x", labelrotation=0)
    cells_ruled(axes, len(rows), len(columns))
