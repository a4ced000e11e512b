"""The processor of this machine: name, cores, kind of integer products, use by other programs."""

from __future__ import annotations

import os
import platform
import re
import resource
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

QUIET_CORES = 0.12
"""Cores that other processes may use without disturbing a measurement."""

_CPUINFO = Path("/proc/cpuinfo")
_STAT = Path("/proc/stat")


def cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def flags(cpu: Path = _CPUINFO) -> frozenset[str]:
    """The instruction sets that Linux names; none where it is not Linux."""
    return frozenset((_field("flags", cpu) or _field("Features", cpu)).split())


def description() -> str:
    """Name and cores of the processor, and the instruction sets that decide how fast int8 is."""
    name = _field("model name", _CPUINFO) or platform.processor() or platform.machine()
    known = {
        "avx2": "AVX2",
        "avx512f": "AVX-512",
        "avx512_vnni": "AVX-512 VNNI",
        "avx_vnni": "AVX VNNI",
        "amx_int8": "AMX",
        "asimddp": "dot products",
        "i8mm": "matrix products",
    }
    sets = [shown for flag, shown in known.items() if flag in flags()]
    return ", ".join([name, f"{cores()} cores", *sets])


def int8_saturates(cpu: Path = _CPUINFO) -> bool:
    """Whether sums of int8 products can overflow: x86-64 without VNNI adds pairs in 16 bits."""
    if platform.machine() != "x86_64" or not cpu.exists():
        return False
    return not {"avx512_vnni", "avx_vnni"} & flags(cpu)


def timed(work: Callable[[], T]) -> tuple[T, float, float | None]:
    """The result of ``work``, its seconds, and the cores that other processes used meanwhile.

    The cores are ``None`` on systems without ``/proc``.
    """
    busy, own = _busy_seconds(), _own_seconds()
    started = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - started
    after = _busy_seconds()
    if busy is None or after is None:
        return result, seconds, None
    others = (after - busy) - (_own_seconds() - own)
    return result, seconds, max(0.0, others / seconds)


def _busy_seconds() -> float | None:
    """Busy time of all cores together since the machine started."""
    try:
        first = _STAT.read_text(encoding="utf-8").split("\n", 1)[0]
    except FileNotFoundError:
        return None
    # user, nice, system, idle, iowait, irq, softirq: all except idle and iowait.
    user, nice, system, _, _, interrupts, soft = (int(each) for each in first.split()[1:8])
    return (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _field(name: str, cpu: Path) -> str:
    if not cpu.exists():
        return ""
    text = cpu.read_text(encoding="utf-8")
    found = re.search(rf"^{name}\s*:\s*(.*)$", text, re.MULTILINE)
    return found[1] if found else ""
