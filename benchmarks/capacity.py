"""Capacity of a service by two formulas, from costs that are measured over HTTP; Linux only.

Requests a second: a request costs processor time of the event loop's thread, processor time of all
other threads, and time of the engine. The capacity is the rate at which the first of them is used
up. Sentences in the service: the rate times the mean latency (Little's law), of which as many as
there are slots are decoded together and the others wait.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

import httpx
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.client import LOST, Outcome, Plan, send
from benchmarks.machine import thread_seconds
from service.runtime import processor

SHARES = (0.3, 0.5, 0.7)
"""Shares of the predicted capacity at which latency and sentences are measured."""
CLIENTS = 64
"""Clients that send one request at a time while costs are measured: a full batch in int8."""
_SAMPLING_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of one request in a full batch."""

    loop: float
    """Processor time of the event loop's thread."""
    others: float
    """Processor time of all other threads together: the engine's and those of its products."""
    busy: float
    """Time that the engine computes."""

    def capacity(self, cores: int) -> float:
        """Requests a second that event loop, engine and processor can all keep up with."""
        return 1 / max(self.loop, self.busy, (self.loop + self.others) / cores)


@dataclass(frozen=True, slots=True)
class Load:
    """Latency in seconds and mean number of sentences in the service at one request rate."""

    rate: float
    latency: float
    sentences: float

    @property
    def predicted_sentences(self) -> float:
        """Little's law. One request has one sentence."""
        return self.rate * self.latency


@dataclass(frozen=True, slots=True)
class Capacity:
    costs: Costs
    cores: int
    clients_rate: float
    """Requests a second of ``CLIENTS`` clients, whose requests the costs are of."""
    loads: tuple[Load, ...]

    @property
    def predicted_rate(self) -> float:
        return self.costs.capacity(self.cores)


def measure(url: str, process_id: int, bodies: Sequence[str], seconds: float) -> Capacity:
    """Costs of a full batch, then the load at each of ``SHARES`` of the capacity they allow.

    Raises ``RuntimeError`` if a request is refused or lost.
    """
    crowd = Plan(tuple(bodies), seconds, clients=CLIENTS)
    # The first run lets caches grow to a full batch.
    _run(url, replace(crowd, seconds=seconds / 4))
    before = _totals(url, process_id)
    outcomes, _ = _run(url, crowd)
    after = _totals(url, process_id)
    spent = (there - here for here, there in zip(before, after, strict=True))
    costs, cores = Costs(*(total / len(outcomes) for total in spent)), processor.cores()
    loads = []
    for share in SHARES:
        rate = share * costs.capacity(cores)
        found, sentences = _run(url, Plan(tuple(bodies), seconds, rate=rate, hopeless_seconds=10))
        latency = statistics.fmean(each.latency for each in found)
        loads.append(Load(_rate(found), latency, sentences))
    return Capacity(costs, cores, _rate(outcomes), tuple(loads))


def lines(capacity: Capacity) -> Iterator[str]:
    """Both predictions beside what was measured."""
    costs = capacity.costs
    yield (
        f"a request in a full batch, ms: event loop {costs.loop * 1e3:.2f}, other threads "
        f"{costs.others * 1e3:.2f}, engine busy {costs.busy * 1e3:.2f}; {capacity.cores} cores"
    )
    yield (
        f"requests/s: predicted {capacity.predicted_rate:.1f}, "
        f"{CLIENTS} clients {capacity.clients_rate:.1f}"
    )
    yield f"{'requests/s':>12}{'mean ms':>9}{'sentences: predicted':>22}{'measured':>10}"
    for load in capacity.loads:
        yield (
            f"{load.rate:>12.1f}{load.latency * 1e3:>9.0f}"
            f"{load.predicted_sentences:>22.1f}{load.sentences:>10.1f}"
        )


def _run(url: str, plan: Plan) -> tuple[list[Outcome], float]:
    """Outcomes of a plan, and the mean number of sentences that wait or are decoded."""
    samples = []
    with ThreadPoolExecutor(1) as thread:
        sending = thread.submit(send, url, plan)
        while not wait([sending], _SAMPLING_SECONDS).done:
            counted = _metrics(url)
            samples.append(counted["nmt_sentences_running"] + counted["nmt_sentences_waiting"])
    outcomes = sending.result()
    if lost := sum(each.latency == LOST for each in outcomes):
        raise RuntimeError(f"{url} refused or lost {lost} of {len(outcomes)} requests")
    # The first and the last sample may be taken while clients start and end.
    return outcomes, statistics.fmean(samples[1:-1] or samples)


def _rate(outcomes: Sequence[Outcome]) -> float:
    return len(outcomes) / max(each.at for each in outcomes)


def _totals(url: str, process_id: int) -> tuple[float, float, float]:
    """Seconds of the event loop's thread, all other threads and the engine since the start."""
    busy = _metrics(url)["nmt_engine_busy_seconds_total"]
    threads = thread_seconds(process_id)
    loop = threads.pop(process_id)
    return loop, sum(threads.values()), busy


def _metrics(url: str) -> dict[str, float]:
    """Values of all metrics by name, summed over their labels."""
    found: defaultdict[str, float] = defaultdict(float)
    text = httpx.get(f"{url}/metrics").raise_for_status().text
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] += sample.value
    return found
