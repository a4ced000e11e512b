"""The owner's end of the connections on which workers have sentences decoded.

Each request is charged, admitted and decoded as one of the owner's own. The owner keeps the models
that it offered to a worker until the worker has taken the next offer, so that a reload refuses no
request.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from service.api.draining import Drain
from service.api.errors import EXPECTED, ShuttingDown
from service.api.metering import OpenDecoder
from service.catalogue.errors import ModelReplaced, NotReady
from service.catalogue.loaded_model import LoadedModel
from service.catalogue.repository import ModelRepository
from service.engine.types import Decoded
from service.inspection.kept_translations import KeptTranslations
from service.observability.logging import request_id
from service.observability.metrics import NO_MODEL, RequestObserver
from service.translation.decoder import Decoder
from service.workers.messages import (
    Call,
    Close,
    Decode,
    Force,
    FromWorker,
    Keep,
    Leaving,
    MessageProtocol,
    Observed,
    Offer,
    Open,
    Part,
    Refused,
    Reply,
    Taken,
    Used,
    Value,
)

logger = logging.getLogger(__name__)


class DecodeServer:
    """Decodes for workers. Event loop only."""

    def __init__(
        self,
        open_decoder: OpenDecoder,
        store: KeptTranslations,
        repository: ModelRepository,
        metrics: RequestObserver,
        drain: Drain,
    ) -> None:
        self.open_decoder = open_decoder
        self.store = store
        self.repository = repository
        self.metrics = metrics
        self.drain = drain
        self.connections: set[_WorkerConnection] = set()
        self._releasing: set[asyncio.Task[None]] = set()
        drain.watch(self._announce_leaving)

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

    def release(self, leases: AsyncExitStack) -> None:
        """End leases soon."""
        task = asyncio.create_task(leases.aclose())
        self._releasing.add(task)
        task.add_done_callback(self._releasing.discard)

    def _offer(self) -> None:
        for connection in self.connections:
            connection.offer()

    def _announce_leaving(self) -> None:
        for connection in self.connections:
            connection.send(Leaving())


class _Abandoned(Exception):
    """A worker has closed a request without finishing it."""


class _OpenRequest:
    """A request of a worker between ``Open`` and ``Close``."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.decoder: asyncio.Future[Decoder] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.calls: set[asyncio.Task[None]] = set()
        self.models: dict[tuple[str, str], LoadedModel] = {}
        """Models of its calls by name and version, which its decoder keeps loaded."""
        self.used = 0
        """Characters that have been delivered to the client."""

    async def run(self, server: DecodeServer, opened: Open) -> None:
        """Charge for the request: for all of it once it is closed as finished, otherwise for what
        was delivered. Outermost: logs bugs."""
        request_id.set(opened.request_id)
        failure: BaseException = _Abandoned()
        try:
            if server.drain.begun:
                raise ShuttingDown
            with server.drain.accepted():
                async with server.open_decoder(opened.caller, opened.characters, opened.origin) as (
                    decoder,
                    charge,
                ):
                    self.decoder.set_result(decoder)
                    try:
                        await self.closed
                    finally:
                        charge.use(self.used)
        except (_Abandoned, *EXPECTED) as error:
            failure = error
        except asyncio.CancelledError:
            failure = ShuttingDown(cut=True)
            if not server.drain.cut:
                raise
        except Exception as error:
            failure = error
            logger.exception("a request of a worker failed unexpectedly")
        finally:
            if self.decoder.done():
                for call in self.calls:
                    call.cancel()
            else:
                # Its calls raise it. A request may also have made no call.
                self.decoder.set_exception(failure)
                self.decoder.exception()


class _WorkerConnection(MessageProtocol):
    """Connection to one worker."""

    def __init__(self, server: DecodeServer) -> None:
        super().__init__(FromWorker)
        self._server = server
        self._numbers = itertools.count(1)
        self._offers: dict[int, tuple[tuple[LoadedModel, ...], AsyncExitStack]] = {}
        """Models of the offers that the worker may use, and the leases of each offer."""
        self._open: dict[int, _OpenRequest] = {}
        self._running = 0
        """Requests accepted by the worker and not yet finished."""
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._server.connections.add(self)
        self.offer()
        if self._server.drain.leaving:
            self.send(Leaving())

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._server.connections.discard(self)
        for task in self._tasks:
            task.cancel()
        for _ in range(self._running):
            self._server.metrics.request_failed("disconnect")
            self._server.metrics.request_finished("other", NO_MODEL, "cancelled", 0.0)
        self._release(list(self._offers))

    def offer(self) -> None:
        """Send the models on offer, if there are any."""
        repository = self._server.repository
        try:
            models = repository.catalogue.models
        except NotReady:
            return
        number = next(self._numbers)
        self._offers[number] = models, repository.held(models)
        found = [
            (model.name, model.manifest.version, str(path)) for model, path in repository.bundles()
        ]
        self.send(Offer(number, tuple(found)))

    def message_received(self, message: FromWorker) -> None:
        match message:
            case Open(request):
                opened = self._open[request] = _OpenRequest()
                self._spawn(opened.run(self._server, message), self._tasks)
            case Close(request, finished):
                closed = self._open.pop(request).closed
                if not closed.done():
                    closed.set_result(None) if finished else closed.set_exception(_Abandoned())
                    # Marks the exception as retrieved: the request may not have been admitted.
                    closed.exception()
            case Used(request, characters):
                self._open[request].used += characters
            case Observed(name, arguments):
                self._running += (name == "request_accepted") - (name == "request_finished")
                getattr(self._server.metrics, name)(*arguments)
            case Taken(number):
                self._release([earlier for earlier in self._offers if earlier < number])
            case Keep():
                self._spawn(self._keep(message), self._tasks)
            case _:
                opened = self._open[message.request]
                self._spawn(self._answer(message, opened), opened.calls)

    async def _keep(self, asked: Keep) -> None:
        kept = await self._server.store.put(asked.translations, asked.scope)
        self.send(Reply(asked.number, kept))

    def _spawn(self, work: Coroutine[None, None, None], kept: set[asyncio.Task[None]]) -> None:
        task = asyncio.create_task(work)
        kept.add(task)
        task.add_done_callback(kept.discard)

    async def _answer(self, call: Call, opened: _OpenRequest) -> None:
        answer: Reply | Refused
        try:
            decoder = await asyncio.shield(opened.decoder)
            answer = Reply(call.number, await self._value(call, decoder, opened.models))
        except asyncio.CancelledError:
            if not self._server.drain.cut:
                raise
            answer = Refused.of(call.number, ShuttingDown(cut=True))
        except (ModelReplaced, *EXPECTED) as error:
            answer = Refused.of(call.number, error)
        # Outermost: the worker answers that the request failed.
        except Exception as error:
            logger.exception("a call of a worker failed unexpectedly")
            answer = Refused.of(call.number, error)
        self.send(answer)

    async def _value(
        self, call: Call, decoder: Decoder, models: dict[tuple[str, str], LoadedModel]
    ) -> Value:
        if not isinstance(call, Decode | Force):
            return None
        wanted = call.model, call.version
        model = models.get(wanted)
        if model is None or not model.engine.alive:
            model = models[wanted] = self._offered(*wanted)
        if isinstance(call, Force):
            return await decoder.teacher_force(model, call.source_ids, call.written)

        def deliver(sentence: int, decoded: Decoded) -> None:
            self.send(Part(call.number, sentence, decoded))

        each = deliver if call.parts else None
        return tuple(await decoder.decode(model, call.sentences, call.work, each))

    def _offered(self, name: str, version: str) -> LoadedModel:
        """The newest model on offer of this name and version: a reload replaces a dead engine.

        Raises ``ModelReplaced`` if there is none, or if its engine is dead, so that the worker can
        route the request to another model.
        """
        for models, _ in reversed(self._offers.values()):
            for model in models:
                if (model.name, model.manifest.version) == (name, version):
                    if not model.engine.alive:
                        raise ModelReplaced(name)
                    return model
        raise ModelReplaced(name)

    def _release(self, numbers: list[int]) -> None:
        """End the leases of offers that the worker does not use."""
        for number in numbers:
            _, leases = self._offers.pop(number)
            self._server.release(leases)
