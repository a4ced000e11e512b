"""Predicts latencies and processor time of one simulated service for given arrivals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from benchmarks.client import Plan, arrivals
from benchmarks.queueing.batch import Batch, PlainBatch, Sentence, Shape
from benchmarks.queueing.costs import Costs
from benchmarks.queueing.replica import NEVER, Replica

Lengths = Sequence[tuple[int, int]]
"""Source tokens and decode steps of sentences."""


@dataclass(frozen=True, slots=True)
class Predicted:
    latencies: tuple[float, ...]
    """In seconds, by request."""
    busy_seconds: float
    """Processor time of both threads."""
    ended: float
    """When the last request was answered."""


def steady(_: float) -> float:
    """Slowness of a machine with constant speed."""
    return 1.0


def predict(
    batch: Batch,
    costs: Costs,
    due: Iterable[float],
    lengths: Lengths,
    *,
    one_core: bool,
    slower: Callable[[float], float] = steady,
) -> Predicted:
    """Request ``n`` is due at ``due[n]`` and sends sentence ``n`` modulo their number."""
    replica = Replica(batch, costs, one_core=one_core, slower=slower)
    last = 0.0
    for number, at in enumerate(due):
        source_length, steps = lengths[number % len(lengths)]
        replica.arrive(at, Sentence(number, source_length, steps))
    while (at := replica.next_event) < NEVER:
        replica.advance(at)
        last = at
    latencies = tuple(latency for _, latency in sorted(replica.latencies))
    return Predicted(latencies, replica.engine_seconds + replica.loop_seconds, last)


def predict_plan(
    batch: Batch,
    costs: Costs,
    plan: Plan,
    lengths: Lengths,
    *,
    one_core: bool,
    slower: Callable[[float], float] = steady,
) -> Predicted:
    """Predict for the arrivals that ``benchmarks.client`` sends by this plan."""
    return predict(batch, costs, arrivals(plan), lengths, one_core=one_core, slower=slower)


def capacity(shape: Shape, costs: Costs, lengths: Lengths, *, one_core: bool) -> float:
    """Sentences per second of a service with a permanently full queue."""
    flood = max(4 * len(lengths), 16 * shape.slots)
    predicted = predict(PlainBatch(shape), costs, [0.0] * flood, lengths, one_core=one_core)
    return flood / predicted.ended


def percentile(values: Iterable[float], share: float) -> float:
    """The least value that at least this share of the values do not exceed."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("nothing was measured, which has no percentiles")
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
