"""Predicted and measured latencies of one service at several loads.

Costs are measured on the same service, alternating with the predicted runs. They are fitted to the
processor time of its two threads, under few and many clients in turn, and under random arrivals at
rates other than those predicted. No latency at a predicted load enters its prediction.

The speed of machines varies by a tenth from one minute to the next, and more if they are shared. So
each run is predicted twice: with current costs, and blind. Current costs are the usual ones times
the ratio of actual to expected processor time in each half second. Blind predictions use that ratio
in the windows before and after the run.
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
"""Numbers of clients that send short sentences."""
PACKED_CLIENTS = (1, 2, 4)
"""Numbers of clients that send several sentences per request."""
BESIDE = 0.1
"""Costs are measured half-way between predicted loads, and this much below and above them all."""
OTHERS = 0.03
"""Share of the service's core that other processes may use before a measurement is repeated."""
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
    """Per load and round."""
    window_seconds: float = 4.0
    """Per measurement of costs."""
    spare_seconds: float = 150.0
    """In total, to repeat disturbed measurements."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One load in one round, with the machine's slowness during and beside it."""

    load: float
    plan: Plan
    seen: Seen
    slower: Slowness
    slower_beside: float


@dataclass(frozen=True, slots=True)
class Compared:
    """Latencies at one load, in seconds: for each percentile the median over the rounds."""

    load: float
    rate: float
    requests: int
    measured: dict[str, float]
    predicted: dict[str, float]
    blind: dict[str, float]
    """Predictions with the costs before and after the run."""
    spread: dict[str, tuple[float, float]]
    """Lowest and highest ratio of predicted to measured over the rounds."""
    busy: float
    """Ratio of blindly predicted to measured processor time of the service."""
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
    """Measures one service within a budget for repeated measurements."""

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
        """Windows of clients in turn, and the results of a single client."""
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
        """Approximate capacity, to choose rates by."""
        lengths = self._workload.lengths
        first = capacity(shape, fit(turns, turns).costs, lengths, one_core=True)
        rain = self._window(first * min(self._protocol.loads))
        return capacity(shape, fit((*turns, rain), [rain]).costs, lengths, one_core=True)

    def _in_turns(self, most: float) -> tuple[list[tuple[float, Plan, Seen]], list[Window]]:
        """Each load in each round, and the windows before, between and after them.

        Loads rise and fall alternately, so that the windows beside a load always have the same
        rates.
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
    """Median part of a single client's latencies that the costs do not explain."""
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
        ratios = [percentile(one, share) / percentile(other, share) for one, other in pairs]
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
    """Medians over the rounds, which a short disturbance of one round does not move."""
    return {
        name: statistics.median(percentile(latencies, share) for latencies in rounds)
        for name, share in PERCENTILES.items()
    }


def slowness(costs: Costs, windows: Sequence[Window]) -> float:
    """Ratio of actual to expected processor time of the threads; uses no latencies."""
    return sum(window.seconds for window in windows) / sum(map(costs.of_window, windows))
