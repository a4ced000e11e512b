"""``python -m tests.system.hostile.traffic``: seeded mixture of attacks and honest requests.

Attackers at one address run attacks drawn at random. Clients at another address send the requests
of the chaos test, and wait for every answer. Prints statuses, and how memory grew.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.support.books import Books, outcomes
from tests.support.programs import ROOT
from tests.system.hostile.attacks import ATTACKS
from tests.system.hostile.campaign import Service, attacked, load
from tests.system.hostile.target import Target
from tests.system.sampler import Series

HONEST_ADDRESS = "127.0.0.3"
ATTACKERS = 2
CLIENTS = 4
_ATTACK_SECONDS = 3.0
"""Longest time of one attack."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Outcome of a run with mixed traffic."""

    hostile: Counter[str]
    """Statuses of the answers to attackers."""
    honest: dict[str, Any]
    """``tests.system.chaos.clients.Tally`` of the clients."""
    books: Books


def run(service: Service, seconds: float, seed: int) -> Traffic:
    """Send mixed traffic for ``seconds``; waits until every request is answered."""
    arguments = ["--port", str(service.port), "--seconds", str(seconds), "--seed", str(seed)]
    arguments += ["--clients", str(CLIENTS), "--address", HONEST_ADDRESS, "--patient"]
    clients = subprocess.Popen(
        [sys.executable, "-m", "tests.system.chaos.clients", *arguments],
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    hostile = asyncio.run(_attack(service.port, seconds, seed))
    honest = json.loads(clients.communicate()[0])
    return Traffic(hostile, honest, service.quiet_books(sentences=False))


async def _attack(port: int, seconds: float, seed: int) -> Counter[str]:
    until = time.monotonic() + seconds
    target = Target(port)

    async def attacker(number: int) -> None:
        draw = random.Random(seed * 1000 + number)
        while time.monotonic() < until:
            try:
                async with asyncio.timeout(draw.uniform(0.2, _ATTACK_SECONDS)):
                    await draw.choice(ATTACKS).run(target)
            except TimeoutError:
                continue
            except AssertionError:
                # A request that prepares an attack was refused.
                continue
            await asyncio.sleep(draw.expovariate(2.0))

    async with asyncio.TaskGroup() as group:
        for number in range(ATTACKERS):
            group.create_task(attacker(number))
    return target.statuses


def growth(resident: Series) -> float:
    """MB a minute in the second half of a series, by least squares."""
    times, values = np.array(resident[len(resident) // 2 :]).T
    slope, _ = np.polyfit(times / 60, values, 1)
    return float(slope)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with attacked() as service:
        traffic = run(service, options.seconds, options.seed)
    resident = service.taken["resident"]
    print(f"hostile: {dict(traffic.hostile)}")
    print(f"honest: {traffic.honest}")
    print(f"outcomes: {outcomes(traffic.books)}")
    for name, unit in (("livez", "ms"), ("idle", "ms"), ("sentence", "s")):
        values = np.array([value for _, value in service.taken[name]])
        quantiles = ", ".join(f"{q} %: {np.percentile(values, q):.2f}" for q in (50, 99, 100))
        print(f"{name}, {unit}: {quantiles}")
    print(
        f"resident: most {max(v for _, v in resident):.0f} MB, "
        f"{growth(resident):.2f} MB a minute in the second half; load {load():.1f}"
    )
    tenth = max(1, len(resident) // 10)
    print(
        "by tenths:",
        [
            round(float(np.median([v for _, v in resident[n : n + tenth]])))
            for n in range(0, len(resident) - tenth + 1, tenth)
        ],
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
