"""Figure of cross-attention on the digit-reversal task, where it follows the anti-diagonal."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from torch import Tensor

from models.bundle.tokenizer import Tokenizers
from models.transformer.transformer import Transformer
from training.data.generated import LENGTH, reverse
from training.figures.style import (
    COLOURS,
    GREY,
    PALE,
    SHARES,
    WIDTH,
    label_of,
    pieces_on,
    rows_ruled,
    styled,
)
from training.search.greedy import greedy

_SEQUENCES = 200


@styled
def reversal(
    cross: Sequence[Tensor],
    rows: Sequence[str],
    columns: Sequence[str],
    exact: Mapping[int, float],
) -> Figure:
    """Cross-attention of each layer, ``[H, T, S]``, and the share of exact answers by length.

    Shows the head of each layer with the most attention on the anti-diagonal.
    """
    rows, columns = ([label_of(piece) for piece in side] for side in (rows, columns))
    figure = Figure(figsize=(WIDTH, 4.4))
    figure.suptitle("Reversing digits, every second occurrence an X", x=0.01, ha="left")
    panels = figure.subplots(1, len(cross) + 1, width_ratios=[1] * len(cross) + [0.9])
    for layer, (axes, weights_HTS) in enumerate(zip(panels[:-1], cross, strict=True)):
        head = int(np.argmax([_backwards(weights_TS) for weights_TS in weights_HTS]))
        axes.imshow(weights_HTS[head].numpy(), cmap=SHARES, vmin=0, vmax=1)
        pieces_on(axes, rows, columns)
        axes.tick_params(axis="x", labelrotation=0)
        axes.get_xticklabels()[-1].set_ha("left")
        axes.set_title(f"Cross-attention, layer {layer + 1}, head {head + 1}")
        axes.set(ylabel="answer so far" if layer == 0 else None)
        for spine in axes.spines.values():
            spine.set(visible=True, color=PALE)
    _accuracy(panels[-1], exact)
    return figure


@torch.inference_mode()
def exact_by_length(network: Transformer, tokenizers: Tokenizers) -> dict[int, float]:
    """The share of sequences of 1 … 10 digits that the network reverses exactly."""
    special = tokenizers.source.special_ids
    shares = {}
    for length in range(1, LENGTH + 1):
        rng = random.Random(f"figure {length}")
        asked = [rng.choices("0123456789", k=length) for _ in range(_SEQUENCES)]
        source_BS = torch.tensor(
            [(*tokenizers.source.encode(" ".join(digits)), special.eos) for digits in asked]
        )
        answers = greedy(network, source_BS, special, max_length=length + 2)
        right = [
            tokenizers.target.decode(ids).split() == reverse(digits)
            for ids, digits in zip(answers, asked, strict=True)
        ]
        shares[length] = sum(right) / _SEQUENCES
    return shares


def _backwards(weights_TS: Tensor) -> float:
    """Share of the attention from the t-th target token to the t-th source token from the end."""
    digits = min(weights_TS.shape) - 1
    return float(sum(weights_TS[t, digits - 1 - t] for t in range(digits)))


def _accuracy(axes: Axes, exact: Mapping[int, float]) -> None:
    axes.bar(list(exact), list(exact.values()), color=COLOURS[0], width=0.75)
    axes.set(title="Exact answers", xlabel="digits", ylabel="share of sequences", ylim=(0, 1.02))
    axes.set_xticks(list(exact))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.tick_params(axis="x", length=0, color=GREY)
    rows_ruled(axes)
