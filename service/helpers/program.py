"""Main program of a helper process: reads messages, calls the answer function, writes replies.

It is killed when its parent process dies, even in the middle of its work. Above its memory limit
its own allocations fail, not the server's.
"""

from __future__ import annotations

import ctypes
import gc
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
from service.threads.thread_priority import lower_thread_priority

Answer = Callable[[list[bytes]], Sequence[bytes]]
"""Maps the parts of a message to the parts of its answer."""

_PARENT_DEATH_SIGNAL = 1
_KEPT_BYTES = 256 << 20
"""A helper with a higher peak memory exits, because the allocator returns little of it."""


def run(module: str, parent: int, memory_bytes: int | None) -> None:
    """Answer messages with ``module.answer``, limited to ``memory_bytes`` more memory."""
    die_with(parent)
    lower_thread_priority()
    asked, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # Text that a library prints to stdout must not end up among the answers.
    os.dup2(2, 1)
    # The collector finds nothing among imported modules, and takes a seventh of their time.
    gc.disable()
    answer: Answer = importlib.import_module(module).answer
    gc.freeze()
    gc.enable()
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
        # Free the memory: the next message may arrive much later.
        del parts, reply


def _reply(answer: Answer, parts: list[bytes]) -> list[bytes]:
    try:
        found = answer(parts)
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    # The server logs the failure and uses another helper.
    except Exception as error:
        # Only the place: the exception message could contain text of the document.
        where = "".join(traceback.format_tb(error.__traceback__))
        return [Outcome.FAILED.value, f"{type(error).__name__} at\n{where}".encode()]
    outcome = Outcome.DONE if _peak_bytes() <= _KEPT_BYTES else Outcome.LAST
    return [outcome.value, *found]


def die_with(parent: int) -> None:
    """Exit when ``parent`` dies. End of input alone is noticed only between two answers."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the parent process has gone")


def _bound(memory_bytes: int) -> None:
    """Limit data memory to the current use, which grows with the cores, plus ``memory_bytes``."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
        most = pages * resource.getpagesize() + memory_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _peak_bytes() -> int:
    if sys.platform != "linux":
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    # Not the resource usage: it starts at the peak of the parent process.
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024
