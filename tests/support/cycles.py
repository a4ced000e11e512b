"""Checks that objects are freed without the garbage collector, for which all threads wait."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_cycles() -> Iterator[None]:
    """Fails if only the collector can free objects that the block has made."""
    # The collector spares frozen objects. To look through those of all tests takes a second.
    gc.freeze()
    gc.disable()
    try:
        yield
        found = gc.collect()
    finally:
        gc.enable()
        gc.unfreeze()
    assert found == 0
