"""Translates requests: detects languages, leases models, checks capacity, decodes, streams.

A request's sentences are admitted all together or not at all. They are decoded concurrently with
those of other requests; batch composition does not change a translation. Without a direct model,
two models translate through a pivot: the second reads the first one's output, markup included.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, suppress

from service.engine.errors import SentenceTooLong
from service.engine.types import Decoded, Origin
from service.translation.admission import Admission
from service.translation.catalogue import Route
from service.translation.confidence import Confidence
from service.translation.errors import (
    InvalidOption,
)
from service.translation.leg import DeliverSentence, Standing, Turn, run_leg
from service.translation.loaded_model import LoadedModel
from service.translation.ordered_parts import OrderedParts
from service.translation.plain import DecodeRequest
from service.translation.preparing import Job, Text, work_of
from service.translation.repository import ModelRepository
from service.translation.scoring import confidences
from service.translation.tasks import deadline, results_of
from service.translation.text_reader import Detector, ReadText, TextReader, require_unicode
from service.translation.types import (
    LanguagePair,
    Leg,
    Part,
    TranslateRequest,
    Translation,
)


class Translator:
    def __init__(
        self, repository: ModelRepository, admission: Admission, detector: Detector
    ) -> None:
        self._repository = repository
        self._admission = admission
        self.reader = TextReader(detector)
        self._numbers = itertools.count(1)

    @property
    def in_flight(self) -> int:
        """Source tokens accepted and not yet translated, see ``service.translation.admission``."""
        return self._admission.in_flight

    async def translate(
        self,
        request: TranslateRequest,
        deliver: Callable[[Part], None] | None = None,
        turn: Turn | None = None,
    ) -> list[Translation]:
        """Translate every text, in order. Cancelling the call frees its resources at once.

        ``deliver`` is called with each sentence as soon as it and all before it are done. ``turn``
        is entered after splitting and tokenising, and left after decoding. Raises a
        ``TranslationError`` or an ``EngineError``.
        """
        require_unicode(request.texts, request.prefix)
        async with deadline(request.deadline):
            return await self._translate(request, deliver, turn)

    async def too_long(self, request: TranslateRequest) -> dict[int, SentenceTooLong]:
        """Errors by text number, from 0, of texts with a word too long for the first model."""
        read = await self.reader.read(request, self._repository.catalogue)
        found: dict[int, SentenceTooLong] = {}
        for each in read:
            async with self._repository.lease(each.pair, request.model) as route:
                try:
                    await self.reader.prepared([each.marked], route[0], Job.of(request))
                except SentenceTooLong as error:
                    found[each.number] = error
        return found

    def leased(self, request: DecodeRequest) -> AbstractAsyncContextManager[LoadedModel]:
        """A lease of a plain request's model; raises ``ModelReplaced`` if it is not on offer."""
        return self._repository.lease_version(request.model, request.version)

    async def decode(self, model: LoadedModel, request: DecodeRequest) -> list[Decoded]:
        """Decode the sentences of a plain request, in order. Cancelling the call frees its rows.

        ``model`` is ``leased``. Raises ``Overloaded``, ``TextTooLarge`` and the errors of
        ``Engine.decode``.
        """
        origin = Origin(request.priority, next(self._numbers), request.caller)
        with self._admission.admitted(request.work, request.caller):
            return await model.results.decode_all(request.sentences, origin, request.cache_scope)

    async def stream(
        self, request: TranslateRequest
    ) -> AsyncGenerator[Part | list[Translation], None]:
        """Yields the parts of every text in order, then all translations. Closing cancels."""
        parts: asyncio.Queue[Part | None] = asyncio.Queue()
        work = asyncio.create_task(self.translate(request, parts.put_nowait))
        work.add_done_callback(lambda _: parts.put_nowait(None))
        try:
            while (part := await parts.get()) is not None:
                yield part
            yield await work
        finally:
            work.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait([work])
            if work.done():
                # Marks the exception as retrieved, and takes it out of the task, to which its
                # traceback refers: otherwise only the garbage collector frees them.
                with suppress(asyncio.CancelledError):
                    work.exception()

    async def _translate(
        self,
        request: TranslateRequest,
        deliver: Callable[[Part], None] | None,
        turn: Turn | None,
    ) -> list[Translation]:
        catalogue = self._repository.catalogue
        if request.model is not None:
            catalogue.named(request.model)
        started = time.perf_counter()
        read = await self.reader.read(request, catalogue)
        order = OrderedParts(len(read), deliver) if deliver is not None else None
        by_pair: dict[LanguagePair, list[ReadText]] = {}
        for each in read:
            by_pair.setdefault(each.pair, []).append(each)
        preparing = time.perf_counter() - started
        standing = Standing(
            request.priority, next(self._numbers), request.cache_scope, request.caller
        )
        async with AsyncExitStack() as leases:
            routes: list[tuple[list[ReadText], Route]] = []
            for pair, texts in by_pair.items():
                route: Route = ()
                if pair.source != pair.target:
                    route = await leases.enter_async_context(
                        self._repository.lease(pair, request.model)
                    )
                    self._admission.refuse_if_full(request.caller)
                routes.append((texts, route))
            groups = [
                self._group(texts, route, request, standing, order, preparing, turn)
                for texts, route in routes
            ]
            done = await results_of(groups)
        translations = dict(pair for group in done for pair in group)
        return [translations[number] for number in range(len(read))]

    async def _group(
        self,
        read: list[ReadText],
        route: Route,
        request: TranslateRequest,
        standing: Standing,
        order: OrderedParts | None,
        reading: float,
        turn: Turn | None,
    ) -> list[tuple[int, Translation]]:
        """Translate the texts of one language pair; without a route they stay unchanged."""
        if not route and request.prefix:
            raise InvalidOption(
                f"prefix needs two languages; source and target are {read[0].pair.source}"
            )
        if not route:
            for each in read:
                if order is not None:
                    order.whole(each.number, each.text)
            return [
                (each.number, Translation(each.pair, (), each.text, each.detection))
                for each in read
            ]
        if request.terms and len(route) > 1:
            raise InvalidOption(f"a glossary needs a model that translates {read[0].pair} directly")
        if request.terms and request.decoding.return_alternatives:
            raise InvalidOption("return_alternatives excludes a glossary")
        legs: list[list[Leg]] = []
        sure: list[tuple[Confidence, ...] | None] = [None] * len(read)
        preparing, marked = reading, [each.marked for each in read]
        with ExitStack() as held:
            for number, directed in enumerate(route):
                last = number == len(route) - 1
                started = time.perf_counter()
                job = Job.of(request, last=last)
                texts = await self.reader.prepared(marked, directed, job, request.caller)
                preparing += time.perf_counter() - started
                if not legs:
                    work = work_of(texts, route, request)
                    held.enter_context(self._admission.admitted(work, request.caller))
                deliver = None
                if order is not None and last:
                    deliver = _deliverer(order, read, texts)
                legs.append(await run_leg(directed, texts, standing, deliver, turn))
                if not last:
                    marked = await self.reader.parsed(
                        [leg.hypotheses[0] for leg in legs[-1]], request.markup, request.caller
                    )
            if request.confidence:
                sure = [await confidences(route[-1], leg, request.caller) for leg in legs[-1]]
        return [
            (
                each.number,
                Translation(
                    each.pair,
                    of_text,
                    detection=each.detection,
                    preparing=preparing,
                    confidences=of_sentences,
                ),
            )
            for each, of_text, of_sentences in zip(read, zip(*legs, strict=True), sure, strict=True)
        ]


def _deliverer(
    order: OrderedParts, read: Sequence[ReadText], texts: Sequence[Text]
) -> DeliverSentence:
    """Callback that passes sentences to ``order`` with their text number in the request."""
    for each, text in zip(read, texts, strict=True):
        order.begin(each.number, text)
    return lambda text, sentence, target: order.deliver(read[text].number, sentence, target)
