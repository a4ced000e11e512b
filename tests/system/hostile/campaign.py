"""Runs attacks against one service process with the committed bundles while a sampler measures."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from benchmarks.server import serving
from tests.support.books import Books, read_books, series
from tests.support.programs import ROOT
from tests.system.hostile.attacks import Attack
from tests.system.hostile.target import Target
from tests.system.sampler import Series

_QUIET_SECONDS = 150.0
"""Longer than any request or helper process of the service works."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """An attack or several at once: from when to when, and the statuses of its answers."""

    name: str
    began: float
    ended: float
    statuses: Counter[str]


@dataclass(frozen=True, slots=True)
class Figures:
    """Measurements of the sampler during an attack; ``nan`` without a measurement."""

    livez: float
    """Longest answer of ``/livez``, milliseconds."""
    idle: float
    """Longest answer of a process that only answers, which shows what the machine adds."""
    sentence: float
    """Longest wait of another caller's sentence, seconds."""
    resident: float
    """Most memory of the process, MB."""
    helpers: float
    """Most memory of its helper processes together, MB."""


@dataclass(slots=True)
class Service:
    """A running service under measurement."""

    url: str
    process: int
    port: int
    taken: dict[str, Series]
    """Filled when the service ends."""

    def books(self) -> Books:
        return read_books(httpx.get(f"{self.url}/metrics", timeout=60).text)

    def quiet_books(self, *, sentences: bool = True) -> Books:
        """The metrics once no request is in progress except the one for the metrics.

        ``sentences``: and no sentence is in the engine, which notices cancelled ones later.
        """
        gauges = ("nmt_sentences_running", "nmt_sentences_waiting", "nmt_queue_tokens")
        deadline = time.monotonic() + _QUIET_SECONDS
        while True:
            books = self.books()
            left = [value for gauge in gauges for value in series(books, gauge).values()]
            if books["nmt_requests_running", ()] == 1 and not (sentences and any(left)):
                return books
            assert time.monotonic() < deadline, "requests are still in progress"
            time.sleep(0.1)

    def attack(self, attacks: Sequence[Attack], seconds: float) -> Outcome:
        """Run attacks side by side, for ``seconds`` at most."""
        began = time.monotonic()
        targets = [Target(self.port) for _ in attacks]

        async def bounded(each: Attack, target: Target) -> None:
            try:
                async with asyncio.timeout(seconds):
                    await each.run(target)
            except TimeoutError:
                pass

        async def all_of_them() -> None:
            async with asyncio.TaskGroup() as group:
                for each, target in zip(attacks, targets, strict=True):
                    group.create_task(bounded(each, target))

        asyncio.run(all_of_them())
        statuses = sum((target.statuses for target in targets), Counter[str]())
        names = ", ".join(each.name for each in attacks)
        return Outcome(names, began, time.monotonic(), statuses)

    def figures(self, outcome: Outcome) -> Figures:
        """The sampler's figures from the beginning to the end of an attack."""

        def most(series: str) -> float:
            # A request counts if any part of it was under way during the attack.
            factor = {"livez": 1000.0, "idle": 1000.0}.get(series, 1.0)
            waits = series in ("livez", "idle", "sentence")
            return max(
                (
                    value
                    for at, value in self.taken[series]
                    if at < outcome.ended and at + (value / factor if waits else 0) > outcome.began
                ),
                default=float("nan"),
            )

        return Figures(*map(most, ("livez", "idle", "sentence", "resident", "helpers")))


@contextmanager
def attacked(**settings: str) -> Iterator[Service]:
    """A service under measurement; its samples are there when the block has ended."""
    bundles = ROOT / "bundles"
    with serving(bundles, RESULT_MEGABYTES="32", **settings) as (url, process):
        port = int(url.rsplit(":", 1)[1])
        service = Service(url, process, port, {})
        arguments = ["--port", str(port), "--process", str(process)]
        sampler = subprocess.Popen(
            [sys.executable, "-m", "tests.system.sampler", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        try:
            yield service
        finally:
            service.taken.update(json.loads(sampler.communicate(b"")[0]))


def load() -> float:
    """Mean number of runnable processes over a minute."""
    return os.getloadavg()[0]
