"""Predicted and measured latencies of one service at several loads.

What is predicted with is measured on the same service, in turns with what is predicted: the
processor time of its two threads while clients come one after the other, by few and by many, and
while requests arrive at random at other rates than those that are predicted. No latency at a
predicted load has a part in its prediction.

Machines wander in speed, by a tenth from one minute to the next and more where others share them.
So each run is predicted twice: with costs as they are at the moment, which is their usual value
times what the processor time of each half second is to what its work should have taken; and blind,
with the same of the windows before and after the run.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from benchmarks import machine
from benchmarks.client import Plan
from benchmarks.queueing.batch import PlainBatch, ScheduledBatch, Shape
from benchmarks.queueing.costs import Costs, Fit, Slowness, Window, fit
from benchmarks.queueing.prediction import (
    Predicted,
    capacity,
    percentile,
    predict,
    predict_plan,
    steady,
)
from benchmarks.queueing.watched import Seen, Watched
from benchmarks.queueing.workload import Workload

CLIENTS = (1, 2, 4, 8, 16, 32)
SHORT_CLIENTS = (1, 4, 16)
"""Who sends sentences that are cut short."""
PACKED_CLIENTS = (1, 2, 4)
"""Who sends several sentences at once."""
BESIDE = 0.1
"""Costs are measured half-way between predicted loads, and so much below and above them all."""
OTHERS = 0.03
"""What others may take of the service's core before a measurement is made again."""
_HOPELESS_SECONDS = 30.0
_WAIT_SECONDS = 10.0
_SEEDS = 1_000

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Protocol:
    loads: tuple[float, ...] = (0.3, 0.5, 0.7)
    """Shares of the capacity."""
    rounds: int = 5
    seconds: float = 16.0
    """Of each load in each round."""
    window_seconds: float = 4.0
    """Of each measurement of costs."""
    spare_seconds: float = 150.0
    """To make disturbed measurements again, over all."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One load in one round; how much slower than usual the machine was then, and beside it."""

    load: float
    plan: Plan
    seen: Seen
    slower: Slowness
    slower_beside: float


@dataclass(frozen=True, slots=True)
class Compared:
    """At one load; latencies in seconds, of each percentile the median over the rounds."""

    load: float
    rate: float
    requests: int
    measured: dict[str, float]
    predicted: dict[str, float]
    blind: dict[str, float]
    """What is predicted with costs of before and after."""
    spread: dict[str, tuple[float, float]]
    """Lowest and highest ratio of predicted to measured in a round."""
    busy: float
    """Blindly predicted over measured processor time of the service."""
    others: float

    def ratio(self, name: str) -> float:
        return self.predicted[name] / self.measured[name]

    @property
    def worst(self) -> float:
        """The larger of the relative errors of p50 and p99."""
        return max(abs(self.ratio(name) - 1) for name in ("p50", "p99"))


@dataclass(frozen=True, slots=True)
class Validation:
    fit: Fit
    capacity: float
    """Sentences per second."""
    compared: tuple[Compared, ...]


PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


class Measuring:
    """Measures one service; remembers what may be measured again."""

    def __init__(
        self, service: Watched, workload: Workload, protocol: Protocol, say: Say = print
    ) -> None:
        self._service = service
        self._workload = workload
        self._protocol = protocol
        self._say = say
        self._spare = protocol.spare_seconds
        self._seed = _SEEDS

    def validate(self, shape: Shape) -> Validation:
        turns, lone = self._by_clients()
        most = self._about(turns, shape)
        self._say(f"about {most:.0f} sentences a second when always enough of them wait")
        measured, beside = self._in_turns(most)
        found = fit((*turns, *beside), beside)
        transit = transit_of(lone, found.costs, shape, self._workload)
        found = replace(found, costs=replace(found.costs, transit=transit))
        segments = [
            Segment(
                load,
                plan,
                seen,
                Slowness(found.costs, seen.slices),
                slowness(found.costs, beside[number : number + 2]),
            )
            for number, (load, plan, seen) in enumerate(measured)
        ]
        most = capacity(shape, found.costs, self._workload.lengths, one_core=True)
        compared = tuple(
            compare(
                [segment for segment in segments if segment.load == load],
                found.costs,
                shape,
                self._workload,
            )
            for load in self._protocol.loads
        )
        return Validation(found, most, compared)

    def _by_clients(self) -> tuple[list[Window], Seen]:
        """Windows of clients in turn, and what a lone one saw."""
        work, seconds = self._workload, self._protocol.window_seconds
        self._see(Plan(work.bodies, seconds / 2, clients=8))
        seen = [
            self._see(Plan(bodies, seconds, clients=clients))
            for bodies, crowd in (
                (work.bodies, CLIENTS),
                (work.short_bodies, SHORT_CLIENTS),
                (work.packed_bodies, PACKED_CLIENTS),
            )
            for clients in crowd
        ]
        return [each.window for each in seen], seen[0]

    def _about(self, turns: Sequence[Window], shape: Shape) -> float:
        """The capacity, well enough to choose rates by."""
        lengths = self._workload.lengths
        first = capacity(shape, fit(turns, turns).costs, lengths, one_core=True)
        rain = self._window(first * min(self._protocol.loads))
        return capacity(shape, fit((*turns, rain), [rain]).costs, lengths, one_core=True)

    def _in_turns(self, most: float) -> tuple[list[tuple[float, Plan, Seen]], list[Window]]:
        """Each load in each round, and the windows before, between and after them.

        Loads rise and fall in turn, so that the windows beside a load are always at the same rates.
        """
        protocol = self._protocol
        loads = sorted(protocol.loads)
        beside = [
            loads[0] - BESIDE,
            *((one + other) / 2 for one, other in itertools.pairwise(loads)),
            loads[-1] + BESIDE,
        ]
        measured: list[tuple[float, Plan, Seen]] = []
        windows = [self._window(beside[0] * most)]
        for round_ in range(protocol.rounds):
            rising = list(zip(loads, beside[1:], strict=True))
            falling = list(zip(loads, beside[:-1], strict=True))[::-1]
            for load, after in falling if round_ % 2 else rising:
                plan, seen = self._rain(load * most, protocol.seconds)
                measured.append((load, plan, seen))
                windows.append(self._window(after * most))
                p50, p99 = (percentile(seen.latencies, share) * 1e3 for share in (0.5, 0.99))
                self._say(
                    f"round {round_ + 1}, {load:.0%}: {len(seen.latencies)} requests, p50 {p50:.1f}"
                    f" ms, p99 {p99:.1f} ms, others {seen.others:.1%} of the core"
                )
        return measured, windows

    def _window(self, rate: float) -> Window:
        return self._rain(rate, self._protocol.window_seconds)[1].window

    def _rain(self, rate: float, seconds: float) -> tuple[Plan, Seen]:
        self._seed += 1
        plan = Plan(
            self._workload.bodies,
            seconds,
            rate=rate,
            hopeless_seconds=_HOPELESS_SECONDS,
            seed=self._seed,
        )
        return plan, self._see(plan)

    def _see(self, plan: Plan) -> Seen:
        while (seen := self._service.see(plan)).others > OTHERS and self._spare >= plan.seconds:
            started = time.monotonic()
            print(f"others took {seen.others:.0%} of the core; once more", file=sys.stderr)
            machine.wait_until_quiet(min(_WAIT_SECONDS, self._spare - plan.seconds))
            self._spare -= plan.seconds + time.monotonic() - started
        return seen


def transit_of(lone: Seen, costs: Costs, shape: Shape, workload: Workload) -> float:
    """What of a lone client's latencies is nobody's work: the median of what is left of them."""
    left = []
    costs = costs.slower(slowness(costs, [lone.window]))
    for number, latency in enumerate(lone.latencies):
        length = workload.lengths[number % len(workload.lengths)]
        alone = predict(PlainBatch(shape), costs, [0.0], [length], one_core=True)
        left.append(latency - alone.latencies[0])
    return max(0.0, statistics.median(left))


def compare(
    segments: Sequence[Segment], costs: Costs, shape: Shape, workload: Workload
) -> Compared:
    predicted: list[Predicted] = []
    blind: list[Predicted] = []
    for segment in segments:
        for kind, factor, slower in (
            (predicted, 1.0, segment.slower),
            (blind, segment.slower_beside, steady),
        ):
            outcome = predict_plan(
                ScheduledBatch(shape),
                costs.slower(factor),
                segment.plan,
                workload.lengths,
                one_core=True,
                slower=slower,
            )
            kind.append(outcome)
    measured = [segment.seen.latencies for segment in segments]
    pairs = list(zip((each.latencies for each in predicted), measured, strict=True))
    spent = sum(segment.seen.window.seconds for segment in segments)
    spread = {}
    for name, share in PERCENTILES.items():
        ratios = [percentile(ours, share) / percentile(theirs, share) for ours, theirs in pairs]
        spread[name] = min(ratios), max(ratios)
    return Compared(
        segments[0].load,
        segments[0].plan.rate,
        sum(map(len, measured)),
        _percentiles(measured),
        _percentiles([each.latencies for each in predicted]),
        _percentiles([each.latencies for each in blind]),
        spread,
        sum(each.busy_seconds for each in blind) / spent,
        max(segment.seen.others for segment in segments),
    )


def _percentiles(rounds: Sequence[Sequence[float]]) -> dict[str, float]:
    """A round that something disturbed for a moment does not move their medians."""
    return {
        name: statistics.median(percentile(latencies, share) for latencies in rounds)
        for name, share in PERCENTILES.items()
    }


def slowness(costs: Costs, windows: Sequence[Window]) -> float:
    """What the threads took over what their work should have taken; no latency has a part in it."""
    return sum(window.seconds for window in windows) / sum(map(costs.of_window, windows))
