"""Geometry of the report's charts: bars, axis ticks and intervals. The page's template draws them.

Lengths are in units of the drawing; y points down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT = 720.0, 190.0
_LEFT, _BOTTOM, _TOP = 40.0, 44.0, 18.0
_GAP = 0.22
"""Share of a group's width that stays empty."""


@dataclass(frozen=True, slots=True)
class Column:
    x: float
    y: float
    width: float
    height: float
    series: int
    label: str
    """Text above the bar, and its tooltip."""
    shown: bool
    """Whether the label has enough room."""


@dataclass(frozen=True, slots=True)
class Tick:
    place: float
    label: str
    below: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    columns: tuple[Column, ...]
    groups: tuple[Tick, ...]
    """Labels below groups of columns, at the middle of each group."""
    levels: tuple[Tick, ...]
    """Horizontal grid lines."""
    left: float = _LEFT
    floor: float = HEIGHT - _BOTTOM
    width: float = WIDTH
    height: float = HEIGHT


def columns(names: Sequence[tuple[str, str]], series: Sequence[Sequence[float | int]]) -> Chart:
    """Groups of columns, one column for each series. A name has two lines."""
    top = _round_up(max((value for values in series for value in values), default=1) or 1)
    group = (WIDTH - _LEFT) / max(1, len(names))
    width = group * (1 - _GAP) / max(1, len(series))
    room = HEIGHT - _BOTTOM - _TOP
    drawn = []
    for j, values in enumerate(series):
        for i, value in enumerate(values):
            height = room * value / top
            label = str(value)
            x = _LEFT + group * (i + _GAP / 2) + width * j
            y = HEIGHT - _BOTTOM - height
            drawn.append(Column(x, y, width, height, j, label, width >= 6.4 * len(label)))
    return Chart(
        tuple(drawn),
        tuple(Tick(_LEFT + group * (i + 0.5), *name) for i, name in enumerate(names)),
        tuple(Tick(HEIGHT - _BOTTOM - room * part / 4, f"{top * part / 4:g}") for part in range(5)),
    )


def _round_up(value: float) -> float:
    """The smallest round number from ``value`` upwards with four round quarters."""
    scale = 10.0 ** math.floor(math.log10(value))
    return next(step * scale for step in (1, 2, 4, 6, 8, 10) if step * scale >= value)


def lengths(results: Sequence[dict[str, Any]]) -> Chart:
    """Histogram of sentences by hypothesis length divided by reference length, in words."""
    bars = results[0]["diagnostics"]["ratios"]
    names = [
        (
            f"≥ {bar['least']:g}"
            if bar["below"] is None
            else f"{bar['least']:g} – {bar['below']:g}",
            "",
        )
        for bar in bars
    ]
    return columns(
        names, [[bar["sentences"] for bar in each["diagnostics"]["ratios"]] for each in results]
    )


def by_source_length(results: Sequence[dict[str, Any]]) -> Chart:
    """BLEU of sentences by source length in words."""
    buckets = results[0]["diagnostics"]["buckets"]
    names = [
        (
            f"{b['least']}+" if b["most"] is None else f"{b['least']} – {b['most']}",
            f"{b['sentences']} {'sentence' if b['sentences'] == 1 else 'sentences'}",
        )
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
