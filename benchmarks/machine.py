"""Waits for a quiet machine; memory and threads of a process, read from ``/proc``."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from service.runtime import processor

T = TypeVar("T")

_PROC = Path("/proc")
_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident memory of a process in bytes."""

    current: int
    peak: int


def wait_until_quiet(longest_seconds: float) -> None:
    """Sleep until other processes hardly use the processor, or time out."""
    deadline = time.monotonic() + longest_seconds
    while time.monotonic() <= deadline:
        _, _, others = processor.timed(lambda: time.sleep(_LOOK_SECONDS))
        if others is None or others <= processor.QUIET_CORES:
            return


def own_memory() -> Memory | None:
    """The memory of this process."""
    try:
        status = (_PROC / "self" / "status").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None

    def kibibytes(name: str) -> int:
        found = re.search(rf"^{name}:\s*(\d+) kB$", status, re.MULTILINE)
        if found is None:
            raise RuntimeError(f"the status of this process has no {name}")
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
