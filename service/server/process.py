"""How a process that serves behaves as a whole: memory, threads taking turns, garbage.

For entry points only, since each of these holds for everything in the process.
"""

from __future__ import annotations

import gc
import sys

from service.server.allocator import keep_memory_together

_SWITCH_SECONDS = 0.0005

_COLLECTIONS = 700, 10, 30
"""Python's own, but that the oldest are looked through a third as often."""


def prepare_process() -> None:
    """Before anything is built, so that all threads of models are started under it."""
    keep_memory_together()
    # The engine's thread asks for the interpreter after every step and must not wait 5 ms for it.
    sys.setswitchinterval(_SWITCH_SECONDS)


def spare_what_stays() -> None:
    """Garbage is not looked for among what has been imported, which stays, elsewhere less often.

    The collector stops everybody while it looks: through all that was imported it takes a few
    hundred milliseconds, through what a full service works on some fifty, every other second.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTIONS)
