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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from models.bundle.bundle import Bundle
from models.bundle.manifest import InvalidBundle, Manifest
from service.api.access import Caller
from service.engine.errors import EngineStopped
from service.engine.types import Decoded
from service.observability.logging import request_id
from service.observability.metrics import FailureReason, Outcome
from service.translation.catalogue import Catalogue
from service.translation.errors import ModelReplaced, NotReady
from service.translation.loaded_model import LoadedModel, Tokenizers
from service.translation.plain import PreparedRequest, finish_plain
from service.translation.types import Translation
from service.workers.decode_messages import (
    Cancel,
    Decode,
    Done,
    Finished,
    FromOwner,
    MessageProtocol,
    Observation,
    Observed,
    Offer,
    OfferedModel,
    Refused,
    Replaced,
    Taken,
)

logger = logging.getLogger(__name__)

GONE = "the service is restarting, and this request was not answered; repeat it in a moment"
_PAUSE_SECONDS = 0.1
"""Between attempts to connect."""
_STRANGE = "\ue000\uf8ff\U000f0000"
"""Characters for private use, which no vocabulary has."""


OpenModel = Callable[[OfferedModel], LoadedModel]
"""Opens a model without its network. Blocks; raises ``InvalidBundle``."""


@dataclass(slots=True)
class _DecodedElsewhere:
    """Stands for the engine of a model, which the owner has."""

    alive: bool = True
    """``False`` once the owner has refused a request for this model, until the next offer."""


class OwnerLink:
    def __init__(
        self, path: Path, prepare: Callable[[Sequence[str]], None], open_model: OpenModel
    ) -> None:
        """``path`` is the owner's socket. ``prepare`` blocks; it gets the languages on offer."""
        self._path = path
        self._open_model = open_model
        self._prepare = prepare
        self._connection: _OwnerConnection | None = None
        self._catalogue: Catalogue | None = None
        self._whole: frozenset[tuple[str, str]] = frozenset()
        """Names and versions of the models that can write any character."""

    @property
    def catalogue(self) -> Catalogue:
        """The models of the last offer that was taken; raises ``NotReady`` without one."""
        if self._catalogue is None:
            raise NotReady("the models are being loaded")
        return self._catalogue

    @property
    def metrics(self) -> ForwardedMetrics:
        return ForwardedMetrics(self._observe)

    def serves(self, prepared: PreparedRequest) -> bool:
        """Whether the engine is alive, as far as is known here, and no unknown token can occur.

        To place an unknown token takes the attention of the network.
        """
        model = (prepared.decode.model, prepared.decode.version)
        return prepared.directed.model.engine.alive and (
            model in self._whole
            or all(options.disable_unk for _, options in prepared.decode.sentences)
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Be connected inside the context, whenever the owner is there."""
        connecting = asyncio.create_task(self._stay_connected())
        try:
            yield
        finally:
            connecting.cancel()
            await asyncio.gather(connecting, return_exceptions=True)

    async def translate(
        self, caller: Caller, characters: int, prepared: PreparedRequest
    ) -> list[Translation]:
        """Have the sentences of a request decoded, and finish it. Cancelling cancels the decoding.

        Raises ``ModelReplaced``, ``EngineStopped`` if the owner is gone or if the request was
        prepared again for a model that this process does not serve, and the errors of
        ``MeteredTranslator.translate_prepared``.
        """
        if self._connection is None:
            raise EngineStopped(GONE)
        if not self.serves(prepared):
            raise EngineStopped("the engine is not running")
        try:
            return await self._connection.translate(caller, characters, prepared)
        except ModelReplaced:
            # The catalogue routes the request, which is prepared again, to a model that is alive.
            prepared.directed.model.engine = cast(Any, _DecodedElsewhere(alive=False))
            raise

    def _observe(self, message: Observed) -> None:
        # Without an owner there are no metrics, and the next owner begins with none.
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
            self._connection = connection
            try:
                await self._take_offers(connection)
            # Without it, requests are passed on until the next connection.
            except Exception:
                logger.exception("the connection to the owner failed unexpectedly")
            finally:
                self._connection, self._catalogue = None, None
                connection.close()

    async def _take_offers(self, connection: _OwnerConnection) -> None:
        """Take offers until the connection is lost."""
        while (offer := await connection.offers.get()) is not None:
            try:
                models = [await asyncio.to_thread(self._open_model, each) for each in offer.models]
            # Bundles are external input, and the owner answers every request that is passed on.
            except Exception as error:
                expected = isinstance(error, InvalidBundle | OSError)
                logger.warning("texts are processed by the owner: %s", error, exc_info=not expected)
                self._catalogue = None
                connection.send(Taken(offer.number))
                continue
            directions = [each for model in models for each in model.manifest.directions]
            languages = sorted({code for each in directions for code in (each.source, each.target)})
            await asyncio.to_thread(self._prepare, languages)
            self._whole = frozenset(
                (model.name, model.manifest.version) for model in models if _writes_anything(model)
            )
            self._catalogue = Catalogue(tuple(models))
            connection.send(Taken(offer.number))


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
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[list[Decoded]]] = {}
        self._lost = False

    async def translate(
        self, caller: Caller, characters: int, prepared: PreparedRequest
    ) -> list[Translation]:
        if self._lost:
            raise EngineStopped(GONE)
        number = next(self._numbers)
        future: asyncio.Future[list[Decoded]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self.send(Decode(number, caller, characters, prepared.decode, request_id.get()))
        end: Finished | Cancel = Cancel(number)
        try:
            translations = await finish_plain(prepared, await future)
            end = Finished(number)
            return translations
        finally:
            del self._waiting[number]
            self.send(end)

    def message_received(self, message: FromOwner) -> None:
        if isinstance(message, Offer):
            self.offers.put_nowait(message)
            return
        future = self._waiting.get(message.number)
        if future is None or future.done():
            return
        match message:
            case Done(_, results):
                future.set_result([result.decoded() for result in results])
            case Refused():
                future.set_exception(message.raised())
            case Replaced():
                future.set_exception(ModelReplaced)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._lost = True
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(EngineStopped(GONE))
        self.offers.put_nowait(None)


def open_tokenizers(offered: OfferedModel) -> LoadedModel:
    """The default ``OpenModel``."""
    path = Path(offered.path)
    bundle = Bundle.open(path)
    manifest = bundle.manifest
    if (manifest.name, manifest.version) != (offered.name, offered.version):
        raise InvalidBundle(f"{path} was replaced; the owner has {offered.version}")
    return without_network(manifest, cast(Tokenizers, bundle.tokenizers()))


def without_network(manifest: Manifest, tokenizers: Tokenizers) -> LoadedModel:
    """A model that only reads and writes texts."""
    absent = cast(Any, _DecodedElsewhere())
    return LoadedModel(manifest, manifest.precisions[0], tokenizers, absent, absent, absent)


def _writes_anything(model: LoadedModel) -> bool:
    """Whether both vocabularies have a token for each byte."""
    unk = model.manifest.special_ids.unk
    sides = (model.tokenizers.source, model.tokenizers.target)
    return all(unk not in side.encode(_STRANGE) for side in sides)
