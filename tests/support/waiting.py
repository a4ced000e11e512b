"""Waits for a condition, which fails the test if it does not come to hold, or for tasks to end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

PATIENCE_SECONDS = 120.0


async def until(holds: Callable[[], object], pause: float = 0.001) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():
            await asyncio.sleep(pause)


def wait_until(holds: Callable[[], object], pause: float = 0.02) -> None:
    """Wait until a condition holds, in a thread without an event loop."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "the condition does not come to hold"
        time.sleep(pause)


async def cancelled(*tasks: asyncio.Future[Any]) -> None:
    """Cancels tasks and waits for their ends, whatever these are."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
