"""The worker's end of the connection on which the owner decodes sentences.

Keeps a catalogue of the models that the owner offers, with their tokenizers and without their
networks, and forwards what becomes of requests to the owner's metrics. Reconnects after a restart
of the owner. Event loop only.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from starlette.requests import HTTPConnection

from models.bundle.manifest import InvalidBundle
from service.api.access import Caller, Callers
from service.api.errors import KeyInvalid
from service.api.metering import RunningCharge
from service.catalogue.catalogue import NO_PREFERENCE, Catalogue, Preference
from service.catalogue.errors import ModelReplaced, NotReady
from service.catalogue.loaded_model import LoadedModel
from service.catalogue.result_cache import DeliverDecoded, SourceSentence
from service.engine.errors import EngineStopped
from service.engine.types import Decoded, Origin
from service.loading.tokenizers import DecodedElsewhere
from service.observability.logging import request_id
from service.observability.metrics import FailureReason, Outcome
from service.translation.decoder import Decoder, ForcedPass
from service.translation.tasks import deadline
from service.translation.types import Translation
from service.workers.messages import (
    Admit,
    Call,
    Close,
    Decode,
    Force,
    FromOwner,
    Keep,
    Leaving,
    MessageProtocol,
    Observation,
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

GONE = "the service is restarting, and this request was not answered; repeat it in a moment"
_PAUSE_SECONDS = 0.1
"""Pause between attempts to connect."""

OpenModel = Callable[[Path, str, str], LoadedModel]
"""Opens the bundle of a model, by name and version, without its network. Blocks; raises
``InvalidBundle``."""


def socket_beside(owner: Path) -> Path:
    """The socket for the messages of workers, beside that of their HTTP requests."""
    return owner.with_name(f"{owner.name}-decode")


class OwnerLink:
    def __init__(
        self,
        path: Path,
        prepare: Callable[[Sequence[str]], None],
        open_model: OpenModel,
        preference: Preference = NO_PREFERENCE,
        seconds: float | None = None,
    ) -> None:
        """``path`` is the owner's socket. ``prepare`` blocks; it gets the languages on offer.

        ``seconds`` limits calls outside of a translation.
        """
        self._seconds = seconds
        self._preference = preference
        self._path = path
        self._open_model = open_model
        self._prepare = prepare
        self._connection: _OwnerConnection | None = None
        self._catalogue: Catalogue | None = None
        self._latest: _OwnerConnection | None = None
        """The connection, or the last one that was lost."""

    @property
    def catalogue(self) -> Catalogue:
        """The models of the last offer that was taken; raises ``NotReady`` without one."""
        if self._catalogue is None:
            raise NotReady("the models are being loaded")
        return self._catalogue

    @property
    def ready(self) -> bool:
        """Whether requests can be read here and decoded by the owner."""
        return self._catalogue is not None

    @property
    def leaving(self) -> bool:
        """Whether the owner ends soon, or has ended."""
        return self._latest is not None and self._latest.leaving

    @property
    def metrics(self) -> ForwardedMetrics:
        return ForwardedMetrics(self._observe)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Be connected inside the context, whenever the owner is there."""
        connecting = asyncio.create_task(self._stay_connected())
        try:
            yield
        finally:
            connecting.cancel()
            await asyncio.gather(connecting, return_exceptions=True)

    @asynccontextmanager
    async def opened(
        self, caller: Caller, characters: int, origin: Origin
    ) -> AsyncIterator[tuple[Decoder, RunningCharge]]:
        """A decoder on behalf of a caller and its charge, see ``service.api.metering.OpenDecoder``.

        Waits for the owner's admission before anything is read, if the caller has limits. Otherwise
        the calls of the decoder wait for it, or leaving does.
        """
        connection = self._connected()
        request = next(connection.numbers)
        connection.send(Open(request, caller, characters, origin, request_id.get()))
        decoder = _RemoteDecoder(connection, request)
        finished = False
        try:
            if caller.requests_per_minute or caller.characters_per_month:
                await decoder.admitted()
            yield decoder, decoder
            if not decoder.called:
                await decoder.admitted()
            finished = True
        finally:
            connection.send(Close(request, finished))

    async def identify(
        self, callers: Callers, connection: HTTPConnection, key: str | None = None
    ) -> Caller:
        """Return the caller as ``Access.identify`` does, with the counters of the owner."""
        try:
            return await callers.identify(connection, key)
        except KeyInvalid:
            caller = callers.anonymous(connection)
            origin = callers.origin(caller, "interactive")
            async with deadline(self._seconds), self.opened(caller, 0, origin):
                # Counts against the rate limit of the address, which slows guessing.
                pass
            raise

    async def keep(self, translations: Sequence[Translation], scope: str) -> str:
        """Have translations kept, without their confidences; returns their id in the scope."""
        connection = self._connected()
        kept = tuple(replace(each, confidences=None) for each in translations)
        async with deadline(self._seconds):
            return cast(str, await connection.call(Keep(next(connection.numbers), kept, scope)))

    def _connected(self) -> _OwnerConnection:
        if self._connection is None:
            raise EngineStopped(GONE)
        return self._connection

    def _observe(self, message: Observed) -> None:
        # Observations without an owner are dropped: there are no metrics, and the next owner begins
        # with none.
        if self._connection is not None:
            self._connection.send(message)

    async def _stay_connected(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                _, connection = await loop.create_unix_connection(_OwnerConnection, str(self._path))
            except OSError:
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            self._connection = self._latest = connection
            try:
                await self._take_offers(connection)
            # Without a catalogue, requests are passed on until the next connection.
            except Exception:
                logger.exception("the connection to the owner failed unexpectedly")
            finally:
                self._connection, self._catalogue = None, None
                connection.close()

    async def _take_offers(self, connection: _OwnerConnection) -> None:
        """Take offers until the connection is lost."""
        while (offer := await connection.offers.get()) is not None:
            try:
                models = [
                    await asyncio.to_thread(self._open_model, Path(path), name, version)
                    for name, version, path in offer.models
                ]
            # Bundles are external input, and the owner answers every request that is passed on.
            except Exception as error:
                expected = isinstance(error, InvalidBundle | OSError)
                logger.warning("texts are processed by the owner: %s", error, exc_info=not expected)
                self._catalogue = None
                connection.send(Taken(offer.number))
                continue
            catalogue = Catalogue(tuple(models), preference=self._preference)
            await asyncio.to_thread(self._prepare, catalogue.codes)
            self._catalogue = catalogue
            connection.send(Taken(offer.number))


class _RemoteDecoder:
    """``Decoder`` and ``RunningCharge`` of one request."""

    def __init__(self, connection: _OwnerConnection, request: int) -> None:
        self._connection = connection
        self._request = request
        self.called = False
        """Whether the owner's admission has been awaited, as each call does."""

    async def admitted(self) -> None:
        """Wait until the owner has admitted the request; raises its refusal."""
        self.called = True
        await self._connection.call(Admit(next(self._connection.numbers), self._request))

    def use(self, characters: int) -> None:
        self._connection.send(Used(self._request, characters))

    async def decode(
        self,
        model: LoadedModel,
        sentences: Sequence[SourceSentence],
        work: int = 0,
        deliver: DeliverDecoded | None = None,
    ) -> list[Decoded]:
        decode = Decode(
            next(self._connection.numbers),
            self._request,
            model.name,
            model.manifest.version,
            tuple(sentences),
            work,
            deliver is not None,
        )
        return list(cast(tuple[Decoded, ...], await self._call(model, decode, deliver)))

    async def teacher_force(
        self, model: LoadedModel, source_ids: tuple[int, ...], written: tuple[int, ...]
    ) -> ForcedPass:
        number, version = next(self._connection.numbers), model.manifest.version
        force = Force(number, self._request, model.name, version, source_ids, written)
        return cast(ForcedPass, await self._call(model, force))

    async def _call(
        self, model: LoadedModel, call: Call, deliver: DeliverDecoded | None = None
    ) -> Value:
        self.called = True
        try:
            return await self._connection.call(call, deliver)
        except ModelReplaced:
            # The catalogue routes the request, which is read again, to a model that is alive.
            model.engine = cast(Any, DecodedElsewhere(alive=False))
            raise


class ForwardedMetrics:
    """``RequestObserver`` whose calls the owner receives."""

    def __init__(self, send: Callable[[Observed], None]) -> None:
        self._send = send

    def request_accepted(self) -> None:
        self._forward("request_accepted")

    def request_finished(
        self, route: str, model: str, outcome: Outcome, seconds: float, trace_id: str | None = None
    ) -> None:
        self._forward("request_finished", route, model, outcome, seconds, trace_id)

    def request_failed(self, reason: FailureReason) -> None:
        self._forward("request_failed", reason)

    def tokenized(self, model: str, seconds: float) -> None:
        self._forward("tokenized", model, seconds)

    def characters(self, model: str, count: int) -> None:
        self._forward("characters", model, count)

    def _forward(self, name: Observation, *arguments: Any) -> None:
        self._send(Observed(name, arguments))


class _OwnerConnection(MessageProtocol):
    def __init__(self) -> None:
        super().__init__(FromOwner)
        self.offers: asyncio.Queue[Offer | None] = asyncio.Queue()
        """Offers to take; ``None`` once the connection is lost."""
        self.numbers = itertools.count(1)
        """Numbers of requests and calls."""
        self.leaving = False
        self._waiting: dict[int, tuple[asyncio.Future[Value], DeliverDecoded | None]] = {}
        self._lost = False

    async def call(self, call: Call, deliver: DeliverDecoded | None = None) -> Value:
        """The result of a call; raises its error, or ``EngineStopped`` if the owner is gone."""
        if self._lost:
            raise EngineStopped(GONE)
        future: asyncio.Future[Value] = asyncio.get_running_loop().create_future()
        self._waiting[call.number] = future, deliver
        self.send(call)
        try:
            return await future
        finally:
            del self._waiting[call.number]

    def message_received(self, message: FromOwner) -> None:
        if isinstance(message, Offer):
            self.offers.put_nowait(message)
            return
        if isinstance(message, Leaving):
            self.leaving = True
            return
        future, deliver = self._waiting.get(message.number, (None, None))
        if future is None or future.done():
            return
        match message:
            case Part(_, sentence, decoded):
                assert deliver is not None
                deliver(sentence, decoded)
            case Refused():
                future.set_exception(message.raised())
            case Reply(_, value):
                future.set_result(value)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._lost = True
        for future, _ in self._waiting.values():
            if not future.done():
                future.set_exception(EngineStopped(GONE))
        self.offers.put_nowait(None)
