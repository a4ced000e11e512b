"""Loads models on first use, and unloads idle ones, within a limit of memory.

Owns which models of a process are in memory. The least recently used of the idle ones give way.
Loads and evictions run one at a time, in the order of their first requests, so that the growth of
the process during a load is that of its model. A load that needs the memory of models in use waits
until one of them is idle. Event loop only.

The size of a model is what the resident memory of the process grew by at its last load, and at
least its files. Before the first load it is its files times the mean growth per byte of file of
the models that have been loaded.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from models.bundle.manifest import InvalidBundle
from service.catalogue.errors import ModelMemoryFull, NotReady, megabytes
from service.catalogue.loaded_model import LoadedModel
from service.engine.errors import EngineStopped

logger = logging.getLogger(__name__)

GROWTH_PER_BYTE = 3.0
"""Growth of a process per byte of a bundle's files, until one has been measured."""
RETRY_SECONDS = 10
"""Pause after a failed load before the next attempt."""
ROOM_SECONDS = 5.0
"""The longest wait of a load, since its first request, for a model in use to become idle."""


class ResidencyObserver(Protocol):
    """Receives what happens to models; see ``Metrics``."""

    def model_resident(self, model: str, size: int) -> None:
        """``size`` in bytes; 0 once the model is unloaded."""

    def model_evicted(self, model: str) -> None: ...

    def model_load_failed(self, model: str) -> None: ...


@dataclass(eq=False, slots=True)
class OnDemand:
    """A model that is loaded when it is used. Its state belongs to ``Residency``."""

    name: str
    file_bytes: int
    """Files that a load reads."""
    load: Callable[[], Awaitable[LoadedModel]]
    unloaded: Callable[[], None]
    """Called when the model has been unloaded, to free what belongs to it elsewhere."""
    model: LoadedModel | None = None
    size: int = 0
    """Bytes, as measured at the last load; 0 before the first one."""
    uses: int = 0
    used: int = 0
    loading: asyncio.Task[LoadedModel] | None = None
    failure: str = ""
    retry_at: float = 0.0
    closed: bool = False


class Residency:
    def __init__(
        self, limit: int, resident_bytes: Callable[[], int], observer: ResidencyObserver
    ) -> None:
        """``limit`` in bytes. ``resident_bytes`` measures the process, without free heap pages;
        it blocks."""
        self._limit = limit
        self._resident_bytes = resident_bytes
        self._observer = observer
        self._changing = asyncio.Lock()
        self._released = asyncio.Event()
        """Set when a model becomes idle or is retired."""
        self._clock = itertools.count(1)
        self._resident: set[OnDemand] = set()
        self._grown = self._read = 0
        """Growth of the process in all loads so far, and the bytes of the files that they read."""

    @asynccontextmanager
    async def using(self, wanted: OnDemand) -> AsyncIterator[LoadedModel]:
        """The model, which is loaded if it is not, and stays loaded inside the context.

        Raises ``ModelMemoryFull``, ``NotReady`` with the reason of a failed load, or
        ``EngineStopped`` once it is closed.
        """
        wanted.uses += 1
        wanted.used = next(self._clock)
        try:
            yield await self._loaded(wanted)
        finally:
            wanted.uses -= 1
            wanted.used = next(self._clock)
            if not wanted.uses:
                self._released.set()

    async def close(self, retired: OnDemand) -> None:
        """Unload the model for good; pending calls fail."""
        retired.closed = True
        if retired.loading is not None:
            retired.loading.cancel()
            await asyncio.gather(retired.loading, return_exceptions=True)
        # Does not wait for loads of other models, so that the service stops at once.
        await self._unload(retired)
        self._released.set()

    async def _loaded(self, wanted: OnDemand) -> LoadedModel:
        if wanted.closed:
            raise EngineStopped("the model has been closed")
        if wanted.model is not None and wanted.model.engine.alive:
            return wanted.model
        if wanted.loading is None or wanted.loading.done():
            remaining = wanted.retry_at - time.monotonic()
            if remaining > 0:
                raise NotReady(wanted.failure, int(remaining) + 1)
            wanted.loading = asyncio.create_task(self._load(wanted))
            wanted.loading.add_done_callback(_retrieve)
        loading = wanted.loading
        try:
            # Other requests wait for the same load, which a cancelled one does not stop.
            return await asyncio.shield(loading)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if loading.cancelled() and task is not None and not task.cancelling():
                raise EngineStopped("the model has been closed") from None
            raise

    async def _load(self, wanted: OnDemand) -> LoadedModel:
        deadline = asyncio.get_running_loop().time() + ROOM_SECONDS
        async with self._changing:
            # A model whose engine has died makes room for its successor.
            await self._unload(wanted)
            await self._make_room(wanted, deadline)
            before = await asyncio.to_thread(self._resident_bytes)
            try:
                model = await wanted.load()
            # Bundles are external input: an error in one must not affect the other models.
            except Exception as error:
                expected = isinstance(error, InvalidBundle | OSError)
                logger.error("%s cannot be loaded: %s", wanted.name, error, exc_info=not expected)
                raise self._failed(wanted, str(error)) from error
            try:
                grown = await asyncio.to_thread(self._resident_bytes) - before
            except BaseException:
                await model.close()
                raise
            size = max(wanted.file_bytes, grown)
            self._grown, self._read = self._grown + size, self._read + wanted.file_bytes
            if size > self._limit:
                await model.close()
                why = f"it takes {megabytes(size)} MB; DRAGOMAN_MODEL_MEGABYTES allows "
                why += str(megabytes(self._limit))
                logger.error("%s cannot be loaded: %s", wanted.name, why)
                raise self._failed(wanted, why)
            wanted.model, wanted.size = model, size
            self._resident.add(wanted)
            self._report(wanted.name)
            # The model may be larger than estimated.
            while self._excess(0) > 0 and (idle := self._idle()):
                await self._evict(idle[0])
            return model

    def _estimate(self, wanted: OnDemand) -> int:
        growth = self._grown / self._read if self._read else GROWTH_PER_BYTE
        size = wanted.size or int(wanted.file_bytes * growth)
        # Only a load shows that a model does not fit.
        return min(size, self._limit)

    async def _make_room(self, wanted: OnDemand, deadline: float) -> None:
        """Unload idle models until ``wanted`` fits. Waits until ``deadline`` for models in use.

        Unloads nothing while that would not suffice.
        """
        size = self._estimate(wanted)
        while True:
            if not wanted.uses:
                raise EngineStopped("the requests for the model have been cancelled")
            if (excess := self._excess(size)) <= 0:
                return
            idle = self._idle()
            if sum(each.size for each in idle) >= excess:
                await self._evict(idle[0])
                continue
            self._released.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._released.wait()
            except TimeoutError:
                raise ModelMemoryFull(wanted.name, size, self._limit) from None

    def _excess(self, size: int) -> int:
        """Bytes by which the models and ``size`` bytes more exceed the limit."""
        return sum(each.size for each in self._resident) + size - self._limit

    def _idle(self) -> list[OnDemand]:
        """The models in memory that no request uses, the least recently used first."""
        return sorted((each for each in self._resident if not each.uses), key=lambda e: e.used)

    async def _evict(self, idle: OnDemand) -> None:
        logger.info("model unloaded", extra={"model": idle.name})
        self._observer.model_evicted(idle.name)
        await self._unload(idle)

    async def _unload(self, unwanted: OnDemand) -> None:
        model, unwanted.model = unwanted.model, None
        if model is not None:
            self._resident.remove(unwanted)
            unwanted.unloaded()
            self._report(unwanted.name)
            # A cancelled load must not leave the engine of a model that gives way running.
            await asyncio.shield(model.close())

    def _report(self, name: str) -> None:
        """A retired model and its successor may have the same name."""
        sizes = [each.size for each in self._resident if each.name == name]
        self._observer.model_resident(name, sum(sizes))

    def _failed(self, wanted: OnDemand, why: str) -> NotReady:
        self._observer.model_load_failed(wanted.name)
        wanted.failure = f"the model {wanted.name} cannot be loaded: {why}"
        wanted.retry_at = time.monotonic() + RETRY_SECONDS
        return NotReady(wanted.failure, RETRY_SECONDS)


def _retrieve(loading: asyncio.Task[LoadedModel]) -> None:
    """Mark the exception as retrieved: every request that waited may have been cancelled."""
    if not loading.cancelled():
        loading.exception()
