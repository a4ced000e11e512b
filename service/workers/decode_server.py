"""The owner's end of the connections on which workers have sentences decoded.

Each request is admitted and decoded as one of the owner's own, and charged once the worker has
finished its texts. The owner keeps the models that it offered to a worker until the worker has
taken the next offer, so that a reload refuses no request.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from service.api.draining import Drain
from service.api.errors import EXPECTED, ShuttingDown
from service.api.metering import MeteredTranslator
from service.observability.logging import request_id
from service.observability.metrics import NO_MODEL, RequestObserver
from service.translation.catalogue import Catalogue
from service.translation.errors import NotReady
from service.translation.loaded_model import LoadedModel
from service.translation.repository import ModelRepository
from service.workers.decode_messages import (
    Cancel,
    Decode,
    Done,
    Finished,
    FromWorker,
    MessageProtocol,
    Observed,
    Offer,
    OfferedModel,
    Refused,
    Replaced,
    Result,
    Taken,
)

logger = logging.getLogger(__name__)


class DecodeServer:
    """Decodes for workers. Event loop only."""

    def __init__(
        self,
        metered: MeteredTranslator,
        repository: ModelRepository,
        metrics: RequestObserver,
        drain: Drain,
    ) -> None:
        self.metered = metered
        self.repository = repository
        self.metrics = metrics
        self.drain = drain
        self.connections: set[_WorkerConnection] = set()

    @asynccontextmanager
    async def listening(self, path: Path) -> AsyncIterator[None]:
        """Serve workers on a Unix socket inside the context."""
        # A killed owner leaves its socket behind.
        path.unlink(missing_ok=True)
        loop = asyncio.get_running_loop()
        server = await loop.create_unix_server(lambda: _WorkerConnection(self), path)
        self.repository.watch(self._offer)
        try:
            yield
        finally:
            self.repository.unwatch(self._offer)
            server.close()
            for connection in list(self.connections):
                connection.close()

    def _offer(self) -> None:
        for connection in self.connections:
            connection.offer()


class _WorkerConnection(MessageProtocol):
    """Connection to one worker."""

    def __init__(self, server: DecodeServer) -> None:
        super().__init__(FromWorker)
        self._server = server
        self._numbers = itertools.count(1)
        self._offers: dict[int, tuple[LoadedModel, ...]] = {}
        """Models of the offers that the worker may use, which have a lease each."""
        self._leases: dict[int, AsyncExitStack] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._finished: dict[int, asyncio.Future[None]] = {}
        """Set when the worker has finished a decoded request."""
        self._running = 0
        """Requests accepted by the worker and not yet finished."""
        self._releasing: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._server.connections.add(self)
        self.offer()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._server.connections.discard(self)
        for task in self._tasks.values():
            task.cancel()
        for _ in range(self._running):
            self._server.metrics.request_failed("disconnect")
            self._server.metrics.request_finished("other", NO_MODEL, "cancelled", 0.0)
        self._release(list(self._offers))

    def offer(self) -> None:
        """Send the models on offer, if there are any."""
        try:
            catalogue: Catalogue = self._server.repository.catalogue
        except NotReady:
            return
        number = next(self._numbers)
        self._offers[number] = catalogue.models
        self._leases[number] = self._server.repository.held(catalogue.models)
        found = [
            OfferedModel(model.name, model.manifest.version, str(path))
            for model, path in self._server.repository.bundles()
        ]
        self.send(Offer(number, tuple(found)))

    def message_received(self, message: FromWorker) -> None:
        match message:
            case Decode():
                task = asyncio.create_task(self._decode(message))
                self._tasks[message.number] = task
                # A task that is cancelled before it begins runs no ``finally``.
                task.add_done_callback(lambda _: self._tasks.pop(message.number))
            case Finished(number):
                if (finished := self._finished.get(number)) is not None and not finished.done():
                    finished.set_result(None)
            case Cancel(number):
                if (decoding := self._tasks.get(number)) is not None:
                    decoding.cancel()
            case Observed(name, arguments):
                self._running += (name == "request_accepted") - (name == "request_finished")
                getattr(self._server.metrics, name)(*arguments)
            case Taken(number):
                self._release([earlier for earlier in self._offers if earlier < number])

    async def _decode(self, message: Decode) -> None:
        number, request = message.number, message.request
        request_id.set(message.request_id)
        try:
            model = self._offered(request.model, request.version)
            # Before the charge, so that the worker can route the request to another model.
            if model is None or not model.engine.alive:
                self.send(Replaced(number))
            elif self._server.drain.begun:
                self.send(Refused.of(number, ShuttingDown()))
            else:
                # The worker may take another offer meanwhile.
                async with self._server.repository.held([model]):
                    with self._server.drain.accepted():
                        async with self._server.metered.decoded(
                            message.caller, message.characters, model, request
                        ) as decoded:
                            finished = asyncio.get_running_loop().create_future()
                            self._finished[number] = finished
                            self.send(Done(number, tuple(map(Result.of, decoded))))
                            await finished
        except asyncio.CancelledError:
            if not self._server.drain.cut:
                raise
            self.send(Refused.of(number, ShuttingDown(cut=True)))
        except EXPECTED as error:
            self.send(Refused.of(number, error))
        # Outermost: the worker answers that the request failed.
        except Exception as error:
            logger.exception("a request of a worker failed unexpectedly")
            self.send(Refused.of(number, error))
        finally:
            self._finished.pop(number, None)

    def _offered(self, name: str, version: str) -> LoadedModel | None:
        """The newest model on offer of this name and version: a reload replaces a dead engine."""
        for models in reversed(self._offers.values()):
            for model in models:
                if (model.name, model.manifest.version) == (name, version):
                    return model
        return None

    def _release(self, numbers: list[int]) -> None:
        """End the leases of offers that the worker does not use."""
        for number in numbers:
            del self._offers[number]
            task = asyncio.create_task(self._leases.pop(number).aclose())
            self._releasing.add(task)
            task.add_done_callback(self._releasing.discard)
