"""Predicted and measured latencies of one service at several loads.

Costs are measured on the same service, alternating with the predicted runs. They are fitted to the
processor time of its two threads, under few and many clients in turn, and under random arrivals at
rates other than those predicted. No latency at a predicted load enters its prediction.

The speed of machines varies by a quarter within seconds if they are shared. So each run is
predicted with current costs: the fitted ones times the ratio of actual to expected processor time
in each half second.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.client import Plan, arrivals
from benchmarks.queueing.costs import Fit, Slowness, fit
from benchmarks.queueing.service import Run, Service
from benchmarks.queueing.simulation import Shape, Site, percentile
from benchmarks.workloads import captions, languages, newstest_lengths, random_words, texts_of
from models.bundle.bundle import Bundle
from training.data.corpus import CorpusError

LOADS = (0.3, 0.5, 0.7)
"""Shares of the capacity whose latencies are predicted."""
BESIDE = (0.2, 0.4, 0.6, 0.8)
"""Shares of the capacity at which costs are measured."""
PERCENTILES = {"p50": 0.5, "p99": 0.99}
_SENTENCES = 512
"""Large enough that equal sentences are never concurrent and never coalesced."""
_SHORT, _PACKED = 4, 8


@dataclass(frozen=True, slots=True)
class Requests:
    """Bodies of requests."""

    single: tuple[str, ...]
    """One sentence each."""
    short: tuple[str, ...]
    """The same, cut after ``_SHORT`` steps. Rows and source tokens have another proportion here,
    which is needed to separate their costs."""
    packed: tuple[str, ...]
    """``_PACKED`` sentences each, so that one encode has more source tokens."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Latencies at one load, in seconds: for each percentile the median over the rounds."""

    load: float
    rate: float
    requests: int
    measured: dict[str, float]
    predicted: dict[str, float]
    spread: dict[str, tuple[float, float]]
    """Lowest and highest ratio of predicted to measured over the rounds."""

    def ratio(self, name: str) -> float:
        return self.predicted[name] / self.measured[name]


def requests_of(bundle: Bundle, data: Path) -> Requests:
    """Multi30k's captions, or random words if these are absent."""
    try:
        sentences = captions(bundle, data)[:_SENTENCES]
    except CorpusError:
        lengths = [max(4, length // 2) for length in newstest_lengths(_SENTENCES)]
        sentences = random_words(bundle, lengths)
    texts, pair = texts_of(bundle, sentences), languages(bundle)
    packs = [texts[first : first + _PACKED] for first in range(0, len(texts), _PACKED)]
    return Requests(
        tuple(json.dumps({"q": text, **pair}) for text in texts),
        tuple(json.dumps({"q": text, **pair, "max_decoding_length": _SHORT}) for text in texts),
        tuple(json.dumps({"q": pack, **pair}) for pack in packs),
    )


class Validation:
    """Measures one service, ``rounds`` times at each load for ``seconds``, and predicts it."""

    def __init__(
        self,
        service: Service,
        requests: Requests,
        *,
        rounds: int = 5,
        seconds: float = 16.0,
        window_seconds: float = 4.0,
        report: Callable[[str], None] = print,
    ) -> None:
        self._service = service
        self._requests = requests
        self._rounds = rounds
        self._seconds = seconds
        self._window_seconds = window_seconds
        self._report = report
        self._seed = 1_000

    def validate(self, about: str, shape: Shape) -> tuple[Site, Fit, list[Compared]]:
        """The service with its fitted costs, and each of ``LOADS`` compared."""
        clients = self._run_clients()
        lengths = self._service.lengths(self._requests.single)
        windows = [run.window for run in clients]
        site = Site(about, shape, fit(windows, windows).costs, lengths, one_core=True)
        # These costs of the event loop are too low: concurrent requests are cheaper.
        first = self._run_rate(min(LOADS) * site.capacity, self._window_seconds).window
        most = replace(site, costs=fit([*windows, first], [first]).costs).capacity
        self._report(f"about {most:.0f} sentences a second when always enough of them wait")
        runs = []
        beside = []
        for round_ in range(self._rounds):
            for share in BESIDE:
                beside.append(self._run_rate(share * most, self._window_seconds).window)
            for load in LOADS:
                runs.append((load, self._run_rate(load * most, self._seconds)))
                self._report(f"round {round_ + 1} of {self._rounds}, {load:.0%}")
        found = fit([*windows, *beside], beside)
        site = replace(site, costs=found.costs)
        site = replace(site, costs=replace(site.costs, transit=transit(site, clients[0])))
        return site, found, [_compare(site, load, runs) for load in LOADS]

    def _run_clients(self) -> list[Run]:
        """Runs with clients that send one request at a time, the first with a single client."""
        requests, seconds = self._requests, self._window_seconds
        self._service.run(Plan(requests.single, seconds / 2, clients=8))
        return [
            self._service.run(Plan(bodies, seconds, clients=clients))
            for bodies, counts in (
                (requests.single, (1, 2, 4, 8, 16, 32)),
                (requests.short, (1, 4, 16)),
                (requests.packed, (1, 2, 4)),
            )
            for clients in counts
        ]

    def _run_rate(self, rate: float, seconds: float) -> Run:
        self._seed += 1
        bodies = self._requests.single
        plan = Plan(bodies, seconds, rate=rate, hopeless_seconds=30.0, seed=self._seed)
        return self._service.run(plan)


def transit(site: Site, lone: Run) -> float:
    """Median part of a single client's latencies that the costs do not explain."""
    slower = replace(site, costs=site.costs.slower(lone.window.slowness(site.costs)))
    unexplained = [latency - slower.alone(number) for number, latency in enumerate(lone.latencies)]
    return max(0.0, statistics.median(unexplained))


def _compare(site: Site, load: float, runs: list[tuple[float, Run]]) -> Compared:
    ours = [run for each, run in runs if each == load]
    measured = [run.latencies for run in ours]
    predicted = [
        site.predict(arrivals(run.plan), Slowness(site.costs, run.parts)).latencies.values()
        for run in ours
    ]
    spread = {}
    for name, share in PERCENTILES.items():
        ratios = [
            percentile(one, share) / percentile(other, share)
            for one, other in zip(predicted, measured, strict=True)
        ]
        spread[name] = min(ratios), max(ratios)
    return Compared(
        load,
        ours[0].plan.rate,
        sum(map(len, measured)),
        _percentiles(measured),
        _percentiles(predicted),
        spread,
    )


def _percentiles(rounds: Sequence[Iterable[float]]) -> dict[str, float]:
    """Medians over the rounds, which a short disturbance of one round does not move."""
    return {
        name: statistics.median(percentile(latencies, share) for latencies in rounds)
        for name, share in PERCENTILES.items()
    }
