"""Figure of label smoothing (section 5.4): smoothed targets, and the loss of confidence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from torch import Tensor

from training.figures.style import (
    COLOURS,
    DASHES,
    INK,
    SHARES,
    WIDTH,
    cells_ruled,
    rows_ruled,
    styled,
)
from training.loop.objective import smoothed_loss, smoothed_targets

ODDS = np.geomspace(1, 1000, 181)

_IMPOSSIBLE = -80.0
"""A logit whose probability is 0 in single precision."""


@styled
def smoothing(
    targets_N: Tensor, vocabulary: int, smoothing: float, pad_id: int, amounts: Sequence[float]
) -> Figure:
    """The targets of ``targets_N`` with ``smoothing``, and the penalty for several ``amounts``."""
    figure = Figure(figsize=(WIDTH, 4.1))
    figure.suptitle("Label smoothing", x=0.01, ha="left")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
    _targets(left, targets_N, vocabulary, smoothing, pad_id)
    _penalties(right, vocabulary, pad_id, amounts)
    return figure


def penalty(odds: Sequence[float], vocabulary: int, smoothing: float, pad_id: int) -> Tensor:
    """The loss in nats if the right token is ``odds`` times as likely as each other token.

    Padding has probability 0. The loss is 0 if the right token's share is 1 − ε.
    """
    right = (pad_id + 1) % vocabulary
    losses = []
    for x in odds:
        logits_1V = torch.zeros(1, vocabulary)
        logits_1V[0, right] = float(np.log(x))
        logits_1V[0, pad_id] = _IMPOSSIBLE
        losses.append(smoothed_loss(logits_1V, torch.tensor([right]), smoothing, pad_id))
    return torch.stack(losses)


def _targets(axes: Axes, targets_N: Tensor, vocabulary: int, smoothing: float, pad_id: int) -> None:
    targets_NV = smoothed_targets(targets_N, vocabulary, smoothing, pad_id).numpy()
    axes.imshow(targets_NV, cmap=SHARES, vmin=0, vmax=1)
    for (row, column), share in np.ndenumerate(targets_NV):
        axes.text(
            column,
            row,
            f"{share:.3g}",
            ha="center",
            va="center",
            fontsize=9,
            color="white" if share > 0.45 else INK,
        )
    names = ["pad" if token == pad_id else str(token) for token in range(vocabulary)]
    axes.set_xticks(range(vocabulary), names)
    axes.set_yticks(range(len(targets_N)), [str(token) for token in targets_N.tolist()])
    axes.set(xlabel="token", ylabel="right token", title=f"The targets, ε = {smoothing:g}")
    cells_ruled(axes, *targets_NV.shape)


def _penalties(axes: Axes, vocabulary: int, pad_id: int, amounts: Sequence[float]) -> None:
    others = vocabulary - 2
    for i, amount in enumerate(amounts):
        curve = penalty(ODDS.tolist(), vocabulary, amount, pad_id).numpy()
        axes.plot(ODDS, curve, color=COLOURS[i], linestyle=DASHES[i], label=f"ε = {amount:g}")
        if amount:
            best = (1 - amount) * others / amount
            axes.plot([best], [0], "o", color=COLOURS[i], markersize=6, clip_on=False, zorder=3)
    axes.set_xscale("log")
    axes.set(
        title="What confidence costs",
        xlabel="odds of the right token against each other one",
        ylabel="loss (nats per token)",
        xlim=(ODDS[0], ODDS[-1]),
    )
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda odds, _: f"{odds:g} : 1"))
    rows_ruled(axes)
    axes.legend(title="● where it costs nothing")
