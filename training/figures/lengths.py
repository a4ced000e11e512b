"""Figure of sentence lengths, and of the share of padding by batching method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, PercentFormatter

from training.data.batching import Indices, Planned, in_batches, in_buckets
from training.figures.style import COLOURS, DASHES, WIDTH, rows_ruled, styled

BUDGETS = (500, 1000, 2000, 4000, 8000, 16000, 32000)
MULTIPLE = 8
"""Bucket lengths are multiples of this."""
_BINS = 40


@styled
def lengths(
    source: Indices,
    target: Indices,
    wasted: Mapping[str, Sequence[float]],
    budgets: Sequence[int] = BUDGETS,
) -> Figure:
    """``wasted`` is the share of padding at each token budget, by batching method."""
    figure = Figure(figsize=(WIDTH, 4.0))
    figure.suptitle(f"Lengths of {len(source):,} training pairs", x=0.01, ha="left")
    left, right = figure.subplots(1, 2)
    longest = int(max(source.max(), target.max()))
    edges = np.arange(0, longest + 2, max(1, -(-longest // _BINS))) + 0.5
    for i, (name, side) in enumerate((("source", source), ("target", target))):
        counts, _ = np.histogram(side, edges)
        left.stairs(
            counts / len(side),
            edges,
            color=COLOURS[i],
            linestyle=DASHES[i],
            linewidth=1.8,
            label=f"{name}: {side.mean():.1f} pieces on average",
        )
    left.set(title="How long they are", xlabel="pieces", ylabel="share of sentences")
    left.yaxis.set_major_formatter(PercentFormatter(1))
    left.legend()
    for i, (way, shares) in enumerate(wasted.items()):
        right.plot(
            budgets,
            shares,
            "os^"[i],
            color=COLOURS[i + 2],
            linestyle=DASHES[i],
            label=way,
            markersize=5,
        )
    right.set_xscale("log", base=2)
    right.set(title="How much is padding", xlabel="tokens in a batch", ylabel="share of padding")
    right.set_xticks(budgets)
    right.xaxis.set_major_formatter(FuncFormatter(lambda tokens, _: f"{tokens / 1000:g}k"))
    right.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    right.set_ylim(bottom=0)
    right.legend()
    for axes in (left, right):
        rows_ruled(axes)
    return figure


def padding(
    source: Indices, target: Indices, batches: Sequence[Planned], multiple: int = 1
) -> float:
    """The share of padding in both sides' tensors, each row with its ``bos`` or ``eos``."""
    real = padded = 0
    for batch in batches:
        for side in (source, target):
            rows = side[batch.indices] + 1
            real += int(rows.sum())
            padded += -(-int(rows.max()) // multiple) * multiple * batch.rows
    return 1 - real / padded


def wasted(
    source: Indices, target: Indices, budgets: Sequence[int] = BUDGETS
) -> dict[str, list[float]]:
    """Share of padding at each budget: in batches as in training, and in unsorted ones."""
    order = np.random.default_rng(1).permutation(len(source))
    sources, targets = source[order], target[order]
    longer = np.maximum(sources, targets)
    return {
        "in any order": [
            padding(source, target, in_any_order(order, longer, budget)) for budget in budgets
        ],
        "sorted by length": [
            padding(source, target, [Planned(i, len(i)) for i in in_batches(order, longer, budget)])
            for budget in budgets
        ],
        f"in buckets, padded to multiples of {MULTIPLE}": [
            padding(source, target, in_buckets(order, sources, targets, budget, MULTIPLE), MULTIPLE)
            for budget in budgets
        ],
    }


def in_any_order(order: Indices, lengths: Indices, budget: int) -> list[Planned]:
    """Cut ``order`` unchanged into batches of at most ``budget`` padded tokens each."""
    batches = []
    start = longest = 0
    for end, length in enumerate((lengths + 1).tolist()):
        if end > start and max(longest, length) * (end + 1 - start) > budget:
            batches.append(Planned(order[start:end], end - start))
            start, longest = end, 0
        longest = max(longest, length)
    return [*batches, Planned(order[start:], len(order) - start)]
