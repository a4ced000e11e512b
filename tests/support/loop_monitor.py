"""Fixture that fails a test in which a callback blocked the event loop.

It counts the processor time of the loop's thread, so that a busy machine does not fail a test.
"""

from __future__ import annotations

import gc
import time
from asyncio import Handle
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

MOST_SECONDS = 0.25
"""Processor time of one callback, which every other request waits for."""


@contextmanager
def monitored(most_seconds: float = MOST_SECONDS) -> Iterator[list[str]]:
    """Yields descriptions of the callbacks that have run longer; see ``asyncio.Handle``."""
    blocking: list[str] = []
    run = Handle._run

    def timed(handle: Handle) -> None:
        started = time.thread_time()
        run(handle)
        spent = time.thread_time() - started
        if spent > most_seconds:
            blocking.append(f"{spent:.2f} s in {handle!r}")

    Handle._run = timed  # type: ignore[method-assign]
    # A collection of everything that the test process has imported is not the service's time.
    gc.freeze()
    try:
        yield blocking
    finally:
        gc.unfreeze()
        Handle._run = run  # type: ignore[method-assign]


@pytest.fixture(autouse=True)
def responsive_loop() -> Iterator[None]:
    """Fails the test if a callback has blocked its event loop. Import it in a ``conftest``."""
    with monitored() as blocking:
        yield
    assert blocking == [], blocking
