"""Semaphore that callers share: while others wait, one caller gets every other turn at most.

Belongs to one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class _Caller:
    turns: asyncio.Semaphore
    calls: int = 0


class FairTurns:
    """At most ``count`` turns at once. One caller holds all but one of them at most, and waits for
    its next one behind the callers that came meanwhile."""

    def __init__(self, count: int) -> None:
        self._turns = asyncio.Semaphore(count)
        self._share = max(1, count - 1)
        self._callers: dict[str, _Caller] = {}
        """Callers that hold a turn or wait for one."""

    @asynccontextmanager
    async def turn(self, caller: str | None) -> AsyncIterator[None]:
        """Wait for a turn and hold it. ``None`` is an unknown caller, which may hold all."""
        if caller is None:
            async with self._turns:
                yield
            return
        known = self._callers.setdefault(caller, _Caller(asyncio.Semaphore(self._share)))
        known.calls += 1
        try:
            async with known.turns, self._turns:
                yield
        finally:
            known.calls -= 1
            if not known.calls:
                del self._callers[caller]
