"""How the C library keeps the memory that it has been given back."""

from __future__ import annotations

import ctypes
import sys

_ARENAS = 2
_M_ARENA_MAX = -8


def keep_memory_together() -> None:
    """Have all threads allocate in few places; before there are threads.

    glibc gives every thread a place of its own, eight times as many as there are cores. Each model
    is loaded and run by other threads than the one before, and leaves holes in theirs that nobody
    fills: some ten megabytes with every reload. Other C libraries do nothing of the kind.
    """
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        mallopt(_M_ARENA_MAX, _ARENAS)


def give_memory_back() -> None:
    """Return to the system what is free between what is in use: a closed model leaves 15 MB of it.

    Blocks for some tens of milliseconds; others run on, unless they allocate in the same place.
    """
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)
