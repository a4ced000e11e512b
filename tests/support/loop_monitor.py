"""Fixture that fails a test in which a callback blocked the event loop.

It counts the processor time of the loop's thread, so that a busy machine does not fail a test.
"""

from __future__ import annotations

import gc
import threading
import time
from asyncio import Handle
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

MOST_SECONDS = 0.25
"""Processor time of one callback, which every other request waits for."""


class _Collected(threading.local):
    seconds = 0.0
    """Processor time of this thread in collections of garbage."""


@contextmanager
def monitored(most_seconds: float = MOST_SECONDS) -> Iterator[list[str]]:
    """Yields descriptions of the callbacks that have run longer; see ``asyncio.Handle``."""
    blocking: list[str] = []
    run = Handle._run
    collected = _Collected()

    def timed(handle: Handle) -> None:
        started = time.thread_time() - collected.seconds
        run(handle)
        spent = time.thread_time() - collected.seconds - started
        if spent > most_seconds:
            blocking.append(f"{spent:.2f} s in {handle!r}")

    def leave_out(phase: str, _: object) -> None:
        # A collection of what the test process has imported, and of hypothesis's examples, is not
        # the service's time.
        collected.seconds += time.thread_time() * (1 if phase == "stop" else -1)

    Handle._run = timed  # type: ignore[method-assign]
    gc.callbacks.append(leave_out)
    try:
        yield blocking
    finally:
        gc.callbacks.remove(leave_out)
        Handle._run = run  # type: ignore[method-assign]


@pytest.fixture(autouse=True)
def responsive_loop() -> Iterator[None]:
    """Fails the test if a callback has blocked its event loop. Import it in a ``conftest``."""
    with monitored() as blocking:
        yield
    assert blocking == [], blocking
