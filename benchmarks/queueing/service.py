"""Measures a real service in its own process: its work and processor time under load.

Work comes from its metrics, processor time of threads from ``/proc``, so this requires Linux. The
event loop is on the process's first thread. With one model thread, the engine's thread is the only
other that computes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.client import LOST, Outcome, Plan, send_since
from benchmarks.machine import thread_seconds
from benchmarks.queueing.costs import Window, Work
from benchmarks.server import serving
from models.bundle.bundle import Bundle

_SAMPLES = {
    "nmt_decode_step_duration_seconds_count": "steps",
    "nmt_batch_size_sum": "rows",
    "nmt_encode_duration_seconds_count": "encodes",
    "nmt_source_tokens_total": "source_tokens",
    "nmt_engine_busy_seconds_total": "busy_seconds",
    "nmt_encode_duration_seconds_sum": "encode_seconds",
}
_SAMPLING_SECONDS = 0.5
"""Detects changes of the machine's speed, costs a hundredth of it."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Totals at a moment of ``time.perf_counter``."""

    at: float
    metrics: dict[str, float]
    loop_seconds: float
    engine_seconds: float
    """Processor time of all threads but the event loop's."""


@dataclass(frozen=True, slots=True)
class Run:
    """Results of a plan."""

    plan: Plan
    latencies: tuple[float, ...]
    """In seconds from when a request was due, in the order of due times."""
    window: Window
    parts: tuple[Window, ...]
    """Consecutive parts of the window."""


@dataclass(frozen=True, slots=True)
class Service:
    url: str
    process_id: int

    def run(self, plan: Plan) -> Run:
        """Run a plan; raises ``RuntimeError`` if a request is refused or lost."""
        with httpx.Client(base_url=self.url, timeout=30) as client, ThreadPoolExecutor(1) as thread:
            samples = [self._sample(client)]
            sending = thread.submit(send_since, self.url, plan)
            while not wait([sending], _SAMPLING_SECONDS).done:
                samples.append(self._sample(client))
            samples.append(self._sample(client))
        started, outcomes = sending.result()
        if lost := sum(each.latency == LOST for each in outcomes):
            raise RuntimeError(
                f"{lost} of {len(outcomes)} requests were refused or lost; the load is above what "
                "this machine can do, or something else kept it from answering"
            )
        outcomes.sort(key=lambda each: each.at - each.latency)
        return Run(
            plan,
            tuple(each.latency for each in outcomes),
            _window(samples[0], samples[-1], started, outcomes),
            tuple(_window(one, other, started, outcomes) for one, other in pairwise(samples)),
        )

    def lengths(self, bodies: Sequence[str]) -> tuple[tuple[int, int], ...]:
        """Source tokens and decode steps of requests, each sent alone."""
        with httpx.Client(base_url=self.url, timeout=30) as client:
            counted = [self._metrics(client)]
            for body in bodies:
                headers = {"Content-Type": "application/json"}
                client.post("/translate", content=body, headers=headers).raise_for_status()
                counted.append(self._metrics(client))
        return tuple(
            (
                round(after["source_tokens"] - before["source_tokens"]),
                round(after["steps"] - before["steps"]),
            )
            for before, after in pairwise(counted)
        )

    def _sample(self, client: httpx.Client) -> Sample:
        seconds = thread_seconds(self.process_id)
        loop = seconds.pop(self.process_id)
        return Sample(time.perf_counter(), self._metrics(client), loop, sum(seconds.values()))

    def _metrics(self, client: httpx.Client) -> dict[str, float]:
        counted = dict.fromkeys(_SAMPLES.values(), 0.0)
        text = client.get("/metrics").raise_for_status().text
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name in _SAMPLES:
                    counted[_SAMPLES[sample.name]] += sample.value
        return counted


@contextmanager
def isolated_service(bundle: Bundle) -> Iterator[Service]:
    """The service with one int8 bundle and one thread, on a core that this process does not use.

    On a machine with one core, clients share it.
    """
    cores = sorted(os.sched_getaffinity(0))
    settings = {"PRECISION": "int8", "THREADS": "1", "DEVICE": "cpu", "RELOAD_SECONDS": "0"}
    with TemporaryDirectory() as bundles:
        (Path(bundles) / bundle.path.name).symlink_to(bundle.path.resolve())
        try:
            # Child processes inherit the CPU affinity.
            os.sched_setaffinity(0, cores[-1:])
            with serving(Path(bundles), **settings) as (url, process_id):
                os.sched_setaffinity(0, cores[:-1] or cores)
                yield Service(url, process_id)
        finally:
            os.sched_setaffinity(0, cores)


def _window(one: Sample, other: Sample, started: float, outcomes: Sequence[Outcome]) -> Window:
    first, last = one.at - started, other.at - started
    metrics = {name: other.metrics[name] - one.metrics[name] for name in other.metrics}
    busy, encoding = metrics.pop("busy_seconds"), metrics.pop("encode_seconds")
    engine = other.engine_seconds - one.engine_seconds
    return Window(
        ends=last,
        work=Work(**metrics),
        received=sum(first < each.at - each.latency <= last for each in outcomes),
        answered=sum(first < each.at <= last for each in outcomes),
        engine_seconds=engine,
        # Wall-clock shares serve, since interruptions are independent of the kind of work.
        encode_seconds=engine * encoding / busy if busy > 0 else 0.0,
        loop_seconds=other.loop_seconds - one.loop_seconds,
    )
