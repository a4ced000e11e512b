"""Lowers the priority of compute threads, so that the event loop gets a core when it needs one."""

from __future__ import annotations

import os
import sys

_NICENESS = 10


def lower_thread_priority() -> None:
    """Permanently lower the priority of the calling thread and of threads it starts.

    Compute threads use every core, and the event loop would wait each time it needs one for a
    millisecond. Only Linux has niceness per thread; on other systems it is per process, and this
    does nothing.
    """
    if sys.platform == "linux":
        os.nice(_NICENESS)
