"""Simulates many services behind a router, with random arrivals.

With random routing each service has random arrivals of its own, so one service represents all of
them. Other routings are simulated with the required number of services, up to ``MOST``. More
services at the same load each hardly change the result (``plan --law`` shows it).
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, get_args

from benchmarks.queueing.batch import PlainBatch, Sentence, Shape
from benchmarks.queueing.costs import Costs
from benchmarks.queueing.prediction import Lengths, capacity, percentile, predict
from benchmarks.queueing.replica import NEVER, Replica

Routing = Literal["random", "two", "least"]
"""``random``; ``two``: the one with fewer requests of two random services, as in Ray Serve;
``least``: the service with the fewest requests."""
ROUTINGS: tuple[Routing, ...] = get_args(Routing)
MOST = 32
MOST_LOAD = 0.9
"""Maximum share of its capacity that a service is planned with, since rates and speeds vary."""
LEAST_REQUESTS, MOST_REQUESTS = 20_000, 500_000
_SPANS = 20
"""Duration of a simulation, in multiples of the latency of a sentence alone."""
_WARMING = 0.2
"""Share of the requests that fill the services at the start; these are not counted."""


@dataclass(frozen=True, slots=True)
class Site:
    """A service of a fleet, and the sentences that it is sent."""

    shape: Shape
    costs: Costs
    lengths: Lengths
    one_core: bool

    @property
    def capacity(self) -> float:
        """Sentences per second of one service."""
        return capacity(self.shape, self.costs, self.lengths, one_core=self.one_core)

    @property
    def loop_capacity(self) -> float:
        """Capacity of an event loop with an engine that takes no time."""
        loop = self.costs.receive + self.costs.answer
        return 1 / loop if loop else math.inf

    @property
    def engine_capacity(self) -> float:
        """Capacity of an engine with an event loop that takes no time."""
        return replace(self, costs=replace(self.costs, receive=0.0, answer=0.0)).capacity

    @property
    def alone_p99(self) -> float:
        """99th percentile of the latency of sentences alone in the service."""
        return percentile(
            (
                predict(
                    PlainBatch(self.shape), self.costs, [0.0], [length], one_core=self.one_core
                ).latencies[0]
                for length in self.lengths
            ),
            0.99,
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """Latencies in seconds, over all counted requests."""

    p50: float
    p99: float
    requests: int


@dataclass(frozen=True, slots=True)
class Need:
    """The required number of services, and their outcome."""

    replicas: int
    load: float
    """Share of the capacity in use."""
    outcome: Outcome


class Impossible(Exception):
    """No number of services reaches the latency; says why."""


def simulate(
    site: Site, replicas: int, rate: float, routing: Routing, requests: int, seed: int = 5
) -> Outcome:
    """``rate`` is the sum over all services, in sentences per second."""
    chance = random.Random(seed)
    services = [
        Replica(PlainBatch(site.shape), site.costs, one_core=site.one_core) for _ in range(replicas)
    ]
    ongoing = [0] * replicas
    choose = _chooser(ongoing, routing, chance)
    events: list[tuple[float, int]] = []
    now = 0.0

    def note(service: int) -> None:
        if (at := services[service].next_event) < NEVER:
            heapq.heappush(events, (at, service))

    def advance(until: float) -> None:
        while events and events[0][0] <= until:
            at, service = heapq.heappop(events)
            # An event may have been postponed, and scheduled again, since it was pushed.
            if at == services[service].next_event:
                services[service].advance(at)
                ongoing[service] = services[service].ongoing
                note(service)

    for number in range(requests):
        now += chance.expovariate(rate)
        advance(now)
        service = choose()
        source_length, steps = site.lengths[chance.randrange(len(site.lengths))]
        services[service].arrive(now, Sentence(number, source_length, steps))
        ongoing[service] += 1
        note(service)
    advance(NEVER)
    counted = [
        latency
        for service in services
        for number, latency in service.latencies
        if number >= _WARMING * requests
    ]
    return Outcome(percentile(counted, 0.5), percentile(counted, 0.99), len(counted))


def needed(site: Site, rate: float, p99: float, routing: Routing) -> Need:
    """The fewest services with which 99 % are answered within ``p99`` seconds.

    No service gets more than ``MOST_LOAD`` of its capacity. Raises ``Impossible`` if sentences
    alone take longer.
    """
    most, alone = site.capacity, site.alone_p99
    if alone > p99:
        raise Impossible(
            f"99 % of sentences take up to {alone * 1e3:.0f} ms on a service that has nothing else "
            f"to do, so that no number of them answers within {p99 * 1e3:.0f} ms"
        )
    outcomes: dict[int, Outcome] = {}

    def reached(replicas: int) -> bool:
        simulated = 1 if routing == "random" else min(replicas, MOST)
        share = rate * simulated / replicas
        requests = enough_requests(site, share)
        outcomes[replicas] = simulate(site, simulated, share, routing, requests)
        return outcomes[replicas].p99 <= p99

    enough = max(1, math.ceil(rate / (most * MOST_LOAD)))
    least = enough - 1
    while not reached(enough):
        least, enough = enough, enough + max(1, enough // 4)
    while enough - least > 1:
        middle = (least + enough) // 2
        if reached(middle):
            enough = middle
        else:
            least = middle
    return Need(enough, rate / (enough * most), outcomes[enough])


def enough_requests(site: Site, rate: float) -> int:
    """Number of requests to simulate, so that the start does not affect the result."""
    wanted = int(_SPANS * site.alone_p99 * rate)
    return min(max(wanted, LEAST_REQUESTS), MOST_REQUESTS)


def _chooser(ongoing: list[int], routing: Routing, chance: random.Random) -> Callable[[], int]:
    """Selects a service by the number of its requests."""
    count = len(ongoing)

    def two() -> int:
        one, other = chance.randrange(count), chance.randrange(count)
        return one if ongoing[one] <= ongoing[other] else other

    match routing:
        case "random":
            return lambda: chance.randrange(count)
        case "two":
            return two
        case "least":
            return lambda: ongoing.index(min(ongoing))
