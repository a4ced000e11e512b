"""Schedules reloads of the bundle directory: at start, by polling, on signal and on request.

``ModelRepository`` does each reload. This module reports the outcome to metrics and log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

from service.catalogue.repository import ModelRepository, Reloaded
from service.observability.metrics import Metrics, ReloadOutcome
from service.threads.allocator import give_memory_back

logger = logging.getLogger(__name__)

Trigger = Literal["start", "poll", "signal", "request"]


class Reloader:
    """Polls every ``seconds`` while ``running``; 0 disables polling. For one event loop."""

    def __init__(self, repository: ModelRepository, metrics: Metrics, seconds: float) -> None:
        self._repository = repository
        self._metrics = metrics
        self._seconds = seconds
        self._reloads: set[asyncio.Task[Reloaded]] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Poll inside the context; on exit, cancel reloads in progress."""
        polling = asyncio.create_task(self._poll())
        try:
            yield
        finally:
            begun = [polling, *self._reloads]
            for task in begun:
                task.cancel()
            await asyncio.gather(*begun, return_exceptions=True)

    async def reload(self, trigger: Trigger = "request") -> Reloaded:
        """Reload after any reload in progress. Cancelling the call does not stop the reload."""
        return await asyncio.shield(self._begin(trigger))

    def request(self, trigger: Trigger = "signal") -> None:
        """Schedule a reload without waiting; its outcome is logged."""
        self._begin(trigger)

    def _begin(self, trigger: Trigger) -> asyncio.Task[Reloaded]:
        task = asyncio.create_task(self._reload(trigger))
        self._reloads.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Reloaded]) -> None:
        self._reloads.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("reloading failed unexpectedly", exc_info=error)

    async def _poll(self) -> None:
        while self._seconds:
            await asyncio.sleep(self._seconds)
            # An unexpected exception has already been logged and counted.
            await asyncio.gather(self._begin("poll"), return_exceptions=True)

    async def _reload(self, trigger: Trigger) -> Reloaded:
        try:
            # Only polls skip broken bundles whose files have not changed.
            done = await self._repository.reload(retry=trigger != "poll")
        except Exception:
            self._metrics.reloaded("error", len(self._repository.failed))
            raise
        if done.changed:
            await asyncio.to_thread(give_memory_back)
        for model in done.retired:
            self._metrics.model_unloaded(model)
        self._metrics.reloaded(_outcome(done), len(done.failed))
        if done.changed or trigger in {"signal", "request"}:
            logger.info(
                "reloaded",
                extra={
                    "trigger": trigger,
                    "loaded": ", ".join(done.loaded) or "nothing",
                    "retired": ", ".join(done.retired) or "nothing",
                    "failed": ", ".join(done.failed) or "nothing",
                },
            )
        return done


def _outcome(done: Reloaded) -> ReloadOutcome:
    if done.failed:
        return "failed"
    return "changed" if done.changed else "unchanged"
