"""Process-wide settings of a server: malloc arenas, thread switching, garbage collection.

For entry points only, since each setting affects the whole process.
"""

from __future__ import annotations

import gc
import sys

from service.threads.allocator import keep_memory_together

_SWITCH_SECONDS = 0.0005

_COLLECTIONS = 700, 10, 30
"""Python's defaults, with the oldest generation collected a third as often."""


def prepare_process() -> None:
    """Call before anything is built, so that all model threads start with these settings."""
    keep_memory_together()
    # The engine thread needs the interpreter lock after every step; the default wait is 5 ms.
    sys.setswitchinterval(_SWITCH_SECONDS)


def spare_what_stays() -> None:
    """Exclude imported objects from garbage collection, and collect other objects less often.

    The collector stops all threads. Scanning the imported objects takes a few hundred milliseconds;
    scanning the objects of a service under load takes about fifty, every other second.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTIONS)
