"""The helper's side: answers one message after the other until there is nothing more to read.

It dies with the process that started it, also in the middle of its work and when that process was
killed. Beyond a bound of memory its allocations fail, and not the server's.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from service.helpers import messages
from service.helpers.messages import OUT_OF_MEMORY, Outcome
from service.thread_priority import lower_thread_priority

Answer = Callable[[list[bytes]], Sequence[bytes]]
"""Parts of a message to those of its answer."""

_PARENT_DEATH_SIGNAL = 1
_KEPT_BYTES = 256 << 20
"""Of memory, at the most that it ever took: beyond, a helper goes, since little is given back."""


def run(module: str, parent: int, memory_bytes: int | None) -> None:
    """Answer with the function ``answer`` of a module, which may take ``memory_bytes`` more."""
    _die_with(parent)
    lower_thread_priority()
    asked, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # Whatever a library may print is no answer.
    os.dup2(2, 1)
    answer: Answer = importlib.import_module(module).answer
    if memory_bytes is not None:
        _bound(memory_bytes)
    try:
        _serve(answer, asked, answers)
    except MemoryError:
        os._exit(OUT_OF_MEMORY)


def _serve(answer: Answer, asked: BinaryIO, answers: BinaryIO) -> None:
    while (parts := messages.read(asked)) is not None:
        reply = _reply(answer, parts)
        messages.write(answers, reply)
        if reply[0] != Outcome.DONE.value:
            return
        # The next message may be long in coming.
        del parts, reply


def _reply(answer: Answer, parts: list[bytes]) -> list[bytes]:
    try:
        found = answer(parts)
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    # Whoever asked is told, and asks another.
    except Exception as error:
        # Where, and not what: a message could hold a stranger's text.
        where = "".join(traceback.format_tb(error.__traceback__))
        return [Outcome.FAILED.value, f"{type(error).__name__} at\n{where}".encode()]
    outcome = Outcome.DONE if _peak_bytes() <= _KEPT_BYTES else Outcome.LAST
    return [outcome.value, *found]


def _die_with(parent: int) -> None:
    """Its death closes our input, too, but we read that only between two answers."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("whoever started this has gone")


def _bound(memory_bytes: int) -> None:
    """Libraries take some by themselves, more of it where there are many cores."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
        most = pages * resource.getpagesize() + memory_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _peak_bytes() -> int:
    if sys.platform != "linux":
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    # Not the resource usage: that begins with the peak of whoever started this.
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024
