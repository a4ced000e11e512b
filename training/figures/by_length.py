"""Figure of BLEU by sentence length, in the buckets of ``training.evaluation.diagnostics``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from training.evaluation.diagnostics import Bucket
from training.figures.style import COLOURS, GREY, WIDTH, rows_ruled, styled

ENOUGH = 30
"""Fewest sentences for which a bucket's BLEU is meaningful."""


@styled
def bleu_by_length(test_set: str, buckets: Mapping[str, Sequence[Bucket]]) -> Figure:
    """One bar for each bucket of each run, by run name, with the number of sentences above it."""
    figure = Figure(figsize=(WIDTH, 4.0))
    figure.suptitle(f"BLEU by length of the source, {test_set}", x=0.01, ha="left")
    axes = figure.subplots()
    edges = sorted({bucket.least for each in buckets.values() for bucket in each})
    names = {b.least: _name(b) for each in buckets.values() for b in each}
    width = 0.8 / len(buckets)
    for i, (run, each) in enumerate(buckets.items()):
        places = [edges.index(bucket.least) - 0.4 + (i + 0.5) * width for bucket in each]
        heights = [bucket.bleu for bucket in each]
        bars = axes.bar(places, heights, width * 0.92, color=COLOURS[i], label=run)
        for bar, bucket in zip(bars, each, strict=True):
            if bucket.sentences < ENOUGH:
                bar.set_alpha(0.35)
        for place, bucket in zip(places, each, strict=True):
            axes.annotate(
                f"{bucket.sentences}",
                (place, bucket.bleu),
                (0, 3),
                ha="center",
                color=GREY,
                textcoords="offset points",
                fontsize=9 if len(buckets) < 3 else 8,
            )
    xlabel = f"words of the source (above the bars: sentences; pale: fewer than {ENOUGH})"
    axes.set_xticks(range(len(edges)), [names[edge] for edge in edges])
    axes.set(xlabel=xlabel, ylabel="BLEU")
    axes.tick_params(axis="x", length=0)
    axes.margins(y=0.16)
    rows_ruled(axes)
    if len(buckets) > 1:
        handles = [Patch(color=COLOURS[i], label=run) for i, run in enumerate(buckets)]
        axes.legend(handles=handles, loc="upper right", ncols=len(buckets))
    return figure


def _name(bucket: Bucket) -> str:
    return f"{bucket.least} and more" if bucket.most is None else f"{bucket.least}–{bucket.most}"
