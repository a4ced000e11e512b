"""Processor use by other processes during a measurement, and memory use of a process.

Both are read from ``/proc``; without it they are ``None``.
"""

from __future__ import annotations

import os
import platform
import re
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

QUIET_CORES = 0.12
"""Cores that other processes may use without disturbing a measurement."""

_PROC = Path("/proc")
_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident memory of a process in bytes."""

    current: int
    peak: int


def timed(work: Callable[[], T]) -> tuple[T, float, float | None]:
    """The result of ``work``, its seconds, and the cores that other processes used meanwhile."""
    busy, own = _busy_seconds(), _own_seconds()
    started = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - started
    after = _busy_seconds()
    if busy is None or after is None:
        return result, seconds, None
    others = (after - busy) - (_own_seconds() - own)
    return result, seconds, max(0.0, others / seconds)


def wait_until_quiet(longest_seconds: float) -> bool:
    """Sleep until other processes hardly use the processor, or time out; returns whether quiet."""
    deadline = time.monotonic() + longest_seconds
    while True:
        _, _, others = timed(lambda: time.sleep(_LOOK_SECONDS))
        if others is None or others <= QUIET_CORES:
            return True
        if time.monotonic() > deadline:
            return False


def memory_of(process_id: int | None = None) -> Memory | None:
    """The memory of a process, by default this one."""
    try:
        status = (_PROC / str(process_id or "self") / "status").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None

    def kibibytes(name: str) -> int:
        found = re.search(rf"^{name}:\s*(\d+) kB$", status, re.MULTILINE)
        if found is None:
            raise RuntimeError(f"the status of process {process_id or 'self'} has no {name}")
        return int(found[1])

    return Memory(kibibytes("VmRSS") * 1024, kibibytes("VmHWM") * 1024)


def thread_seconds(process_id: int) -> dict[int, float]:
    """Processor time of each thread of a process, by thread id; Linux only.

    The id of the first thread is that of the process.
    """
    tasks = _PROC / str(process_id) / "task"
    # The first number of schedstat is processor time in nanoseconds.
    return {
        int(task.name): int((task / "schedstat").read_text(encoding="utf-8").split()[0]) / 1e9
        for task in tasks.iterdir()
    }


def cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def description() -> str:
    """Name of the processor."""
    info = _PROC / "cpuinfo"
    if not info.exists():
        return f"{platform.processor() or platform.machine()}, {cores()} cores"
    text = info.read_text(encoding="utf-8")
    name = re.search(r"^model name\s*:\s*(.*)$", text, re.MULTILINE)
    vnni = ", VNNI" if re.search(r"^flags\s*:.*\b(avx512_vnni|avx_vnni)\b", text, re.M) else ""
    return f"{name[1] if name else platform.machine()}, {cores()} cores{vnni}"


def _busy_seconds() -> float | None:
    """Busy time of all cores together since the machine started."""
    try:
        first = (_PROC / "stat").read_text(encoding="utf-8").split("\n", 1)[0]
    except FileNotFoundError:
        return None
    # user, nice, system, idle, iowait, irq, softirq: all except idle and iowait.
    user, nice, system, _, _, interrupts, soft = (int(each) for each in first.split()[1:8])
    return (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
