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

from benchmarks.client import LOST, Heard, Plan, send_since
from benchmarks.queueing.costs import Slice, Window, Work
from benchmarks.server import serving_process
from models.bundle.bundle import Bundle
from models.bundle.manifest import Precision

_SAMPLES = {
    "steps": "nmt_decode_step_duration_seconds_count",
    "rows": "nmt_batch_size_sum",
    "encodes": "nmt_encode_duration_seconds_count",
    "source_tokens": "nmt_source_tokens_total",
}
_SECONDS = {
    "busy_seconds": "nmt_engine_busy_seconds_total",
    "encode_seconds": "nmt_encode_duration_seconds_sum",
}

_LOOK_SECONDS = 0.5
"""Sampling interval: detects changes of the machine's speed, costs a hundredth of it."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Total processor time, in seconds."""

    loop: float
    engine: float


@dataclass(frozen=True, slots=True)
class Look:
    """Total work and processor time at a moment of ``time.perf_counter``."""

    at: float
    work: dict[str, float]
    spent: Spent


@dataclass(frozen=True, slots=True)
class Seen:
    """Results of a plan."""

    window: Window
    latencies: tuple[float, ...]
    """In seconds from when a request was due, in the order of due times."""
    slices: tuple[Slice, ...]
    """Consecutive slices of the window."""
    others: float
    """Share of the service's core that other processes, or other guests of the host, used."""


@dataclass(frozen=True, slots=True)
class Watched:
    url: str
    process_id: int
    core: int
    alone: bool
    """Whether clients have another core. On a single-core machine they share the service's core."""

    def see(self, plan: Plan) -> Seen:
        """Run a plan; raises ``RuntimeError`` if a request is refused or lost."""
        busy, began = self._busy(), time.perf_counter()
        with httpx.Client(base_url=self.url, timeout=30) as client, ThreadPoolExecutor(1) as thread:
            looks = [self._look(client)]
            sending = thread.submit(send_since, self.url, plan)
            while not wait([sending], _LOOK_SECONDS).done:
                looks.append(self._look(client))
            looks.append(self._look(client))
        started, heard = sending.result()
        others = self._busy() - busy
        elapsed = time.perf_counter() - began
        if lost := sum(each.latency == LOST for each in heard):
            raise RuntimeError(
                f"{lost} of {len(heard)} requests were refused or lost; the load is above what "
                "this machine can do, or something else kept it from answering"
            )
        heard.sort(key=lambda each: each.at - each.latency)
        total = _between(looks[0], looks[-1], started, heard)
        engine = looks[-1].spent.engine - looks[0].spent.engine
        window = Window(
            total.work,
            len(heard),
            engine_seconds=engine,
            encode_seconds=engine * _encoding(looks[0], looks[-1]),
            loop_seconds=looks[-1].spent.loop - looks[0].spent.loop,
        )
        return Seen(
            window,
            tuple(each.latency for each in heard),
            tuple(_between(one, other, started, heard) for one, other in pairwise(looks)),
            max(0.0, others - window.seconds) / elapsed,
        )

    def _look(self, client: httpx.Client) -> Look:
        return Look(time.perf_counter(), self._work(client), self._spent())

    def _busy(self) -> float:
        """Seconds in which any process used the core, or the hypervisor took it (steal)."""
        text = Path("/proc/stat").read_text(encoding="utf-8")
        line = next(line for line in text.splitlines() if line.startswith(f"cpu{self.core} "))
        # user, nice, system, idle, iowait, irq, softirq, steal: all except idle and iowait.
        user, nice, system, _, _, interrupts, soft, stolen = map(int, line.split()[1:9])
        return (user + nice + system + interrupts + soft + stolen) / os.sysconf("SC_CLK_TCK")

    def _work(self, client: httpx.Client) -> dict[str, float]:
        wanted = _SAMPLES | _SECONDS
        counted = dict.fromkeys(wanted, 0.0)
        names = {sample: name for name, sample in wanted.items()}
        text = client.get("/metrics").raise_for_status().text
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name in names:
                    counted[names[sample.name]] += sample.value
        return counted

    def _spent(self) -> Spent:
        tasks = Path(f"/proc/{self.process_id}/task")
        seconds = {int(task.name): _seconds(task) for task in tasks.iterdir()}
        loop = seconds.pop(self.process_id)
        return Spent(loop, sum(seconds.values()))


@contextmanager
def watching(bundle: Bundle, precision: Precision) -> Iterator[Watched]:
    """The service with one bundle and one thread, on a core that this process does not use."""
    cores = sorted(os.sched_getaffinity(0))
    alone = len(cores) > 1
    with TemporaryDirectory() as bundles:
        (Path(bundles) / bundle.path.name).symlink_to(bundle.path.resolve())
        try:
            # Child processes inherit the CPU affinity.
            os.sched_setaffinity(0, cores[-1:])
            with serving_process(
                Path(bundles), PRECISION=precision, THREADS="1", DEVICE="cpu", RELOAD_SECONDS="0"
            ) as (url, process_id):
                if alone:
                    os.sched_setaffinity(0, cores[:-1])
                yield Watched(url, process_id, cores[-1], alone)
        finally:
            os.sched_setaffinity(0, cores)


def _encoding(one: Look, other: Look) -> float:
    """Share of its time that the engine encoded.

    By wall-clock time, since interruptions are independent of the kind of work.
    """
    busy, encoding = (other.work[name] - one.work[name] for name in _SECONDS)
    return encoding / busy if busy > 0 else 0.0


def _between(one: Look, other: Look, started: float, heard: Sequence[Heard]) -> Slice:
    first, last = one.at - started, other.at - started
    return Slice(
        last,
        Work(**{name: other.work[name] - one.work[name] for name in _SAMPLES}),
        received=sum(first < each.at - each.latency <= last for each in heard),
        answered=sum(first < each.at <= last for each in heard),
        seconds=other.spent.loop + other.spent.engine - one.spent.loop - one.spent.engine,
    )


def _seconds(task: Path) -> float:
    """Processor time of a thread, in nanoseconds if the kernel supports it."""
    exact = task / "schedstat"
    if exact.exists():
        return int(exact.read_text(encoding="utf-8").split()[0]) / 1e9
    fields = (task / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
