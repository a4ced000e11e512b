"""Graceful shutdown: new requests are refused while accepted requests finish.

``Drain`` tracks the requests in progress; the server begins it and waits for it. The middleware
``RefuseWhileDraining`` of ``service.api.middleware`` registers every request with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PROBES = frozenset({"/livez", "/readyz", "/health", "/metrics"})
"""Paths that orchestrators poll every few seconds, also during shutdown."""


class Drain:
    """Tracks the requests in progress. Used by one event loop only."""

    def __init__(self) -> None:
        self.leaving = False
        """Whether the server ends soon, so that a balancer should send it no more."""
        self.begun = False
        """Whether new requests are refused."""
        self.cut = False
        """Whether the requests in progress were cancelled."""
        self._watching: list[Callable[[], None]] = []
        self._running: set[asyncio.Task[object]] = set()
        self._none_left = asyncio.Event()
        self._none_left.set()

    @property
    def running(self) -> int:
        """Requests accepted and not yet answered, without probes."""
        return len(self._running)

    def leave(self) -> None:
        """Say in probes and in the heads of answers that the server ends soon."""
        if not self.leaving:
            self.leaving = True
            for leaving in self._watching:
                leaving()

    def begin(self) -> None:
        """Refuse all further requests."""
        self.begun = True
        self.leave()

    def watch(self, leaving: Callable[[], None]) -> None:
        """Have ``leaving`` called once the server is to end soon."""
        self._watching.append(leaving)

    async def finished(self, seconds: float) -> bool:
        """Wait until every accepted request has been answered; ``False`` if that takes longer."""
        try:
            async with asyncio.timeout(seconds):
                await self._none_left.wait()
        except TimeoutError:
            return False
        return True

    def cut_short(self) -> int:
        """Cancel the requests in progress; returns their number."""
        self.cut = True
        for task in self._running:
            task.cancel()
        return len(self._running)

    @contextmanager
    def accepted(self) -> Iterator[None]:
        """Register the calling task as a request in progress."""
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        self._none_left.clear()
        try:
            yield
        finally:
            self._running.discard(task)
            if not self._running:
                self._none_left.set()
