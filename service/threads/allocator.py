"""Settings of the glibc allocator against memory fragmentation, and resident memory."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

_ARENAS = 2
_M_ARENA_MAX = -8


def keep_memory_together() -> None:
    """Limit glibc to two malloc arenas for all threads. Call before threads start.

    By default glibc uses up to eight arenas per core. Each model is loaded and run by new threads
    and leaves unused holes in their arenas: some ten megabytes with every reload. Other C libraries
    have no such arenas.
    """
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        mallopt(_M_ARENA_MAX, _ARENAS)


def give_memory_back() -> None:
    """Return free heap pages to the operating system: a closed model leaves 15 MB of them.

    Blocks for some tens of milliseconds. Other threads run on unless they use the same arena.
    """
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)


def resident_bytes() -> int:
    """Resident memory of this process without free heap pages, which are returned first. Blocks.

    Raises ``OSError`` on systems without ``/proc``.
    """
    give_memory_back()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
