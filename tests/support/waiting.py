"""Waits for a condition, and fails the test if it does not come to hold."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

PATIENCE_SECONDS = 120.0


async def until(holds: Callable[[], object], pause: float = 0.001) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():
            await asyncio.sleep(pause)


def wait_until(holds: Callable[[], object], pause: float = 0.02) -> None:
    """Like ``until``, for a thread without an event loop."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "the condition does not come to hold"
        time.sleep(pause)
