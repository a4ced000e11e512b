"""When the offer is made equal to the bundle directory: at the start, now and then, on request.

How is ``ModelRepository``'s business; this decides when, one after the other, and tells the
metrics and the log what came of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal, Protocol

from service.observability.metrics import ReloadOutcome
from service.server.allocator import give_memory_back
from service.translation.repository import ModelRepository, Reloaded

logger = logging.getLogger(__name__)

Trigger = Literal["start", "poll", "signal", "request"]


class ReloadObserver(Protocol):
    """Hears what reloads have done; ``Metrics`` is one."""

    def model_unloaded(self, model: str) -> None: ...

    def reloaded(self, outcome: ReloadOutcome, failed: int) -> None: ...


class Reloader:
    """Reloads while ``running``, every ``seconds`` if they are not 0. For one event loop."""

    def __init__(
        self, repository: ModelRepository, observer: ReloadObserver, seconds: float
    ) -> None:
        self._repository = repository
        self._observer = observer
        self._seconds = seconds
        self._reloads: set[asyncio.Task[Reloaded]] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Poll until the end; then cancel whatever is still being loaded."""
        polling = asyncio.create_task(self._poll())
        try:
            yield
        finally:
            begun = [polling, *self._reloads]
            for task in begun:
                task.cancel()
            await asyncio.gather(*begun, return_exceptions=True)

    async def reload(self, trigger: Trigger = "request") -> Reloaded:
        """Reload once whoever is reloading is done. Who stops waiting does not stop the reload."""
        return await asyncio.shield(self._begin(trigger))

    def request(self, trigger: Trigger = "signal") -> None:
        """Reload soon. What comes of it is logged."""
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
            # What is unexpected has been logged and counted by then, and may pass.
            await asyncio.gather(self._begin("poll"), return_exceptions=True)

    async def _reload(self, trigger: Trigger) -> Reloaded:
        try:
            # Somebody who asks expects everything to be tried; nobody has asked a poll.
            done = await self._repository.reload(retry=trigger != "poll")
        except Exception:
            self._observer.reloaded("error", len(self._repository.failed))
            raise
        if done.changed:
            await asyncio.to_thread(give_memory_back)
        for model in done.retired:
            self._observer.model_unloaded(model)
        self._observer.reloaded(_outcome(done), len(done.failed))
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
