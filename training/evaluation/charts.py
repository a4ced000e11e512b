"""Charts of the report as SVG, and the confidence intervals beside its scores.

The page's style sheet colours the charts, by the ids of their elements.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.style import context

_STYLE = {
    "svg.fonttype": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.edgecolor": "#8a8f98",
    "font.size": 8,
}
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_COLOURS = 6
"""Series that the style sheet tells apart."""


def columns(names: Sequence[str], series: Sequence[Sequence[float | int]]) -> Markup:
    """Groups of columns, one column for each series, as an SVG element."""
    width = 0.8 / len(series)
    # Ids of two charts on one page must differ.
    with context(_STYLE), context({"svg.hashsalt": str(names)}):
        figure = Figure(figsize=(7.2, 2.0), layout="constrained")
        axes = figure.subplots()
        for j, values in enumerate(series):
            places = [i - 0.4 + (j + 0.5) * width for i in range(len(names))]
            bars = axes.bar(
                places, values, 0.95 * width, clip_on=False, gid=f"series-{j % _COLOURS}"
            )
            axes.bar_label(bars, fontsize=7)
        axes.set_xticks(range(len(names)), names)
        axes.tick_params(length=0)
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", transparent=True, metadata=_NO_METADATA)
    document = drawn.getvalue()
    return Markup(document[document.index("<svg") :])


def lengths(results: Sequence[dict[str, Any]]) -> Markup:
    """Histogram of sentences by hypothesis length divided by reference length, in words."""
    bars = results[0]["diagnostics"]["ratios"]
    names = [
        f"≥ {bar['least']:g}" if bar["below"] is None else f"{bar['least']:g} – {bar['below']:g}"
        for bar in bars
    ]
    return columns(
        names, [[bar["sentences"] for bar in each["diagnostics"]["ratios"]] for each in results]
    )


def by_source_length(results: Sequence[dict[str, Any]]) -> Markup:
    """BLEU of sentences by source length in words."""
    buckets = results[0]["diagnostics"]["buckets"]
    names = [
        (f"{b['least']}+" if b["most"] is None else f"{b['least']} – {b['most']}")
        + f"\n{b['sentences']} {'sentence' if b['sentences'] == 1 else 'sentences'}"
        for b in buckets
    ]
    return columns(names, [[b["bleu"] for b in each["diagnostics"]["buckets"]] for each in results])


@dataclass(frozen=True, slots=True)
class Range:
    """A score and its confidence interval on an axis of 100 units."""

    low: float
    high: float
    score: float


def ranges(measured: Sequence[dict[str, Any]]) -> list[Range]:
    """One metric of every system, on an axis that contains all confidence intervals."""
    lows: list[float] = [each["mean"] - each["margin"] for each in measured]
    highs: list[float] = [each["mean"] + each["margin"] for each in measured]
    scores: list[float] = [each["score"] for each in measured]
    bottom, top = min(*lows, *scores), max(*highs, *scores)
    scale: float = 92 / (top - bottom or 1)

    def at(value: float) -> float:
        return round(4 + (value - bottom) * scale, 2)

    return [
        Range(at(low), at(high), at(score))
        for low, high, score in zip(lows, highs, scores, strict=True)
    ]
