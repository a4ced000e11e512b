"""Simulates many services behind a router, with random arrivals.

With random routing each service has random arrivals of its own, so one service represents all of
them. Other routings are simulated with the required number of services, up to ``MOST``. More
services at the same load each hardly change the result.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, get_args

from benchmarks.queueing.simulation import NEVER, Replica, Sentence, Shape, Site, percentile
from benchmarks.workloads import newstest_lengths

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
class Outcome:
    """Latencies in seconds, over all counted requests."""

    p50: float
    p99: float


@dataclass(frozen=True, slots=True)
class Need:
    """The required number of services, and their outcome."""

    replicas: int
    load: float
    """Share of the capacity in use."""
    outcome: Outcome


class Impossible(Exception):
    """No number of services reaches the latency; says why."""


def assumed_gpu(measured: Site) -> Site:
    """A site with assumed costs of a GPU, for planning without measurements.

    The engine's costs are guesses for a data-centre GPU and a base-size network in fp16. A step
    launches some 200 kernels at about 10 µs each. Search and scheduling take 1 to 2 ms of Python,
    as on a CPU. A row's reads and writes take a few microseconds at 2 TB/s. An encode launches half
    as many kernels. The event loop's costs are those of ``measured``, since it is the same Python.
    ``benchmarks.gpu`` measures the steps of a real GPU.
    """
    return Site(
        "ASSUMED, not measured: base network in fp16 on a GPU, sentences of a news test's lengths",
        Shape(slots=256, max_batch_tokens=1 << 16),
        replace(measured.costs, step=4e-3, row=4e-6, encode=2e-3, source_token=2e-6),
        tuple((length, length) for length in newstest_lengths(512)),
        one_core=False,
    )


def simulate(site: Site, replicas: int, rate: float, routing: Routing, requests: int) -> Outcome:
    """``rate`` is the sum over all services, in sentences per second."""
    chance = random.Random(5)
    services = [Replica(site) for _ in range(replicas)]
    candidates: dict[Routing, Callable[[], list[Replica]]] = {
        "random": lambda: [chance.choice(services)],
        "two": lambda: [chance.choice(services), chance.choice(services)],
        "least": lambda: services,
    }
    now = 0.0
    for number in range(requests):
        now += chance.expovariate(rate)
        considered = candidates[routing]()
        for service in considered:
            service.advance(now)
        chosen = min(considered, key=lambda service: service.ongoing)
        chosen.arrive(now, Sentence(number, *chance.choice(site.lengths)))
    for service in services:
        service.advance(NEVER)
    counted = [
        latency
        for service in services
        for number, latency in service.latencies.items()
        if number >= _WARMING * requests
    ]
    return Outcome(percentile(counted, 0.5), percentile(counted, 0.99))


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
        # Enough requests that the start does not affect the result.
        requests = min(max(int(_SPANS * alone * share), LEAST_REQUESTS), MOST_REQUESTS)
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
