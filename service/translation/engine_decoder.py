"""Decoder of the engines in this process: leases models, reserves capacity, decodes."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace

from service.catalogue.loaded_model import LoadedModel
from service.catalogue.repository import ModelRepository
from service.catalogue.result_cache import DeliverDecoded, SourceSentence
from service.engine.types import DEFAULT_ORIGIN, Decoded, Origin
from service.translation.admission import Admission
from service.translation.decoder import Decoder, ForcedPass
from service.translation.expected_wait import Note
from service.translation.forced_pass import forced_pass_of
from service.translation.tasks import together


class EngineDecoders:
    """Opens a decoder for each request. Event loop only."""

    def __init__(self, repository: ModelRepository, admission: Admission) -> None:
        self._repository = repository
        self._admission = admission
        self._numbers = itertools.count(1)

    def refuse_if_slow(self, origin: Origin, characters: int = 0) -> None:
        """Raise ``Overloaded`` before a request is read; see ``Admission.refuse_if_slow``."""
        self._admission.refuse_if_slow(origin.caller, origin.priority, characters)

    @asynccontextmanager
    async def opened(
        self,
        origin: Origin = DEFAULT_ORIGIN,
        block_lock: AbstractAsyncContextManager[None] | None = None,
    ) -> AsyncIterator[Decoder]:
        """A decoder whose leases and reservations end with the context.

        ``origin`` gets the number of the request. With ``block_lock``, held while sentences are
        decoded, all sentences of a call are queued before the engine admits the first.
        """
        origin = replace(origin, request=next(self._numbers))
        async with AsyncExitStack() as held:
            yield _EngineDecoder(self._repository, self._admission, origin, held, block_lock)


class _EngineDecoder:
    """``Decoder`` of one request."""

    def __init__(
        self,
        repository: ModelRepository,
        admission: Admission,
        origin: Origin,
        held: AsyncExitStack,
        block_lock: AbstractAsyncContextManager[None] | None,
    ) -> None:
        self._repository = repository
        self._admission = admission
        self._origin = origin
        self._held = held
        self._block_lock = block_lock
        self._leased: set[LoadedModel] = set()

    async def decode(
        self,
        model: LoadedModel,
        sentences: Sequence[SourceSentence],
        work: int = 0,
        deliver: DeliverDecoded | None = None,
    ) -> list[Decoded]:
        self._lease(model)
        if work:
            origin = self._origin
            admitted = self._admission.admitted(work, origin.caller, origin.priority)
            note = self._held.enter_context(admitted)
            share = work / max(1, sum(len(source_ids) for source_ids, _ in sentences))
            deliver = _noting(note, share, sentences, deliver)
        if self._block_lock is None:
            return await model.results.decode(sentences, self._origin, deliver)
        async with self._block_lock, together() as group:
            with model.engine.gathering():
                decoding = group.create_task(
                    model.results.decode(sentences, self._origin, deliver, at_once=True)
                )
                # One turn of the event loop starts the task, another those of its sentences.
                for _ in range(2):
                    await asyncio.sleep(0)
        return decoding.result()

    async def teacher_force(
        self, model: LoadedModel, source_ids: tuple[int, ...], written: tuple[int, ...]
    ) -> ForcedPass:
        self._lease(model)
        maps = await model.attention.read(source_ids, written, self._origin.caller)
        return forced_pass_of(model, maps)

    def _lease(self, model: LoadedModel) -> None:
        """Keep the model loaded until the request ends; raises ``ModelReplaced``."""
        if model not in self._leased:
            self._repository.lease_until_closed(self._held, model)
            self._leased.add(model)


def _noting(
    note: Note,
    share: float,
    sentences: Sequence[SourceSentence],
    deliver: DeliverDecoded | None,
) -> DeliverDecoded:
    """``deliver``, which also notes ``share`` for each token of a sentence."""

    def delivered(number: int, decoded: Decoded) -> None:
        # Results from a cache are no measure of the engine.
        note(share * len(sentences[number][0]), decoded.durations.decoding > 0)
        if deliver is not None:
            deliver(number, decoded)

    return delivered
