"""Who computes steps aside for who answers, on machines where both want the same cores."""

from __future__ import annotations

import os
import sys

_NICENESS = 10


def lower_thread_priority() -> None:
    """Give the calling thread, and those it starts, a lower priority for good.

    Computing takes every core there is, and the event loop would wait for its turn each time that
    it needs one for a millisecond. Niceness is a thread's own on Linux only; elsewhere it is the
    whole process's, and this does nothing.
    """
    if sys.platform == "linux":
        os.nice(_NICENESS)
