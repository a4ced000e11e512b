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
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass
from typing import Protocol

from service.engine.errors import SentenceTooLong
from service.translation.admission import Admission
from service.translation.beginning import begun
from service.translation.catalogue import Catalogue, Route
from service.translation.confidence import Confidence
from service.translation.decoding import DecodingOverrides
from service.translation.errors import (
    InvalidOption,
    InvalidText,
    UndetectedLanguage,
)
from service.translation.glossary.term_index import TermIndexes
from service.translation.glossary.terms import MOST_FORCED
from service.translation.leg import DeliverSentence, Standing, Turn, run_leg
from service.translation.loaded_model import DirectedModel
from service.translation.markup import MarkedText, Markup, parse
from service.translation.ordered_parts import OrderedParts
from service.translation.preparing import Job, Text, prepare
from service.translation.repository import ModelRepository
from service.translation.scoring import confidences
from service.translation.tasks import deadline, results_of
from service.translation.text_pool import Check, TextPool
from service.translation.types import (
    Detection,
    LanguagePair,
    Leg,
    Part,
    TranslateRequest,
    Translation,
)


class Detector(Protocol):
    def detect(self, text: str, languages: Sequence[str]) -> tuple[Detection, ...]:
        """The languages a text may be in, of those given, the likeliest first. Blocks."""
        ...


@dataclass(frozen=True, slots=True)
class ReadText:
    """A parsed text and its language pair."""

    number: int
    text: str
    marked: MarkedText
    pair: LanguagePair
    detection: Detection | None


class Translator:
    def __init__(
        self, repository: ModelRepository, admission: Admission, detector: Detector
    ) -> None:
        self._repository = repository
        self._admission = admission
        self._detector = detector
        self.texts = TextPool()
        """The threads that process texts."""
        self._terms = TermIndexes()
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
        require_unicode(request.texts)
        async with deadline(request.deadline):
            return await self._translate(request, deliver, turn)

    async def too_long(self, request: TranslateRequest) -> dict[int, SentenceTooLong]:
        """Errors by text number, from 0, of texts with a word too long for the first model."""
        read = await self.read(request)
        found: dict[int, SentenceTooLong] = {}
        for each in read:
            async with self._repository.lease(each.pair, request.model) as route:
                try:
                    await self.prepared([each.marked], route[0], _job(request, last=True))
                except SentenceTooLong as error:
                    found[each.number] = error
        return found

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
        read = await self.read(request)
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

    async def read(self, request: TranslateRequest) -> list[ReadText]:
        """The parsed texts and their language pairs.

        Raises ``UndetectedLanguage`` and the errors of unknown languages and malformed markup.
        """
        catalogue = self._repository.catalogue
        return await self.texts.run(
            request.texts,
            lambda check: self._read(request, catalogue, check),
            caller=request.caller or None,
        )

    def _read(
        self, request: TranslateRequest, catalogue: Catalogue, check: Check
    ) -> list[ReadText]:
        """Parse the texts and determine their language pairs. Blocks.

        A text of several whose language cannot be detected is left as it is, unless this is true
        of all of them.
        """
        if request.source is None:
            source, target = "", catalogue.language(request.target, "targets")
        else:
            pair = catalogue.pair(request.source, request.target)
            source, target = pair.source, pair.target
        read, undetected = [], list[UndetectedLanguage]()
        for number, text in enumerate(request.texts):
            check()
            marked = parse(text, request.markup)
            detection = None
            if not source:
                try:
                    plain = "\n".join(run.text for run in marked.runs)
                    detection = self.detect(plain, target, catalogue, number)
                except UndetectedLanguage as error:
                    undetected.append(error)
                    detection = Detection(target, 0.0, found=False)
            code = source if detection is None else detection.language
            read.append(ReadText(number, text, marked, LanguagePair(code, target), detection))
        if undetected and len(undetected) == len(read):
            raise undetected[0]
        return read

    def detect(self, plain: str, target: str, catalogue: Catalogue, number: int = 0) -> Detection:
        """Detect a text's language among those translated to ``target``, or ``target`` itself.

        A text without letters counts as in the target language. Blocks. Raises
        ``UndetectedLanguage`` with the number of the text.
        """
        if not any(character.isalpha() for character in plain):
            return Detection(target, 0.0)
        languages = [
            c for c in catalogue.sources if c == target or target in catalogue.targets_of(c)
        ]
        candidates = sorted({*languages, target})
        found = self._detector.detect(plain, candidates)
        if not found:
            raise UndetectedLanguage(number + 1, languages)
        return found[0]

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
                job = _job(request, last=last)
                texts = await self.prepared(marked, directed, job, request.caller)
                preparing += time.perf_counter() - started
                if not legs:
                    once, again = _work(texts, route, request)
                    held.enter_context(self._admission.admitted(once, request.caller, again))
                deliver = None
                if order is not None and last:
                    deliver = _deliverer(order, read, texts)
                legs.append(await run_leg(directed, texts, standing, deliver, turn))
                if not last:
                    marked = await self._parsed(
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

    async def prepared(
        self, marked: Sequence[MarkedText], directed: DirectedModel, job: Job, caller: str = ""
    ) -> list[Text]:
        """The texts as tokenised sentences; raises the errors of ``prepare``."""
        if job.prefix:
            # Short texts are prepared on the event loop, where the vocabulary must not be made.
            await asyncio.to_thread(directed.model.vocabulary)
        runs = [run for text in marked for run in text.runs]
        extra = job.extra_characters + sum(len(run.atoms) for run in runs)

        def prepared(check: Check) -> list[Text]:
            texts = prepare(marked, directed, job, self._terms.of(job.terms), check)
            if job.prefix:
                (text,) = texts
                texts = [begun(text, job.prefix, directed, job.splitting, job.markup)]
            return [text.with_alternatives(job.decoding.alternatives) for text in texts]

        return await self.texts.run([run.text for run in runs], prepared, extra, caller or None)

    async def _parsed(self, texts: Sequence[str], markup: Markup, caller: str) -> list[MarkedText]:
        return await self.texts.run(
            texts, lambda check: _parse_all(texts, markup, check), caller=caller or None
        )


def _parse_all(texts: Sequence[str], markup: Markup, check: Check) -> list[MarkedText]:
    parsed = []
    for text in texts:
        check()
        parsed.append(parse(text, markup))
    return parsed


def _work(texts: Sequence[Text], route: Route, request: TranslateRequest) -> tuple[int, int]:
    """Work in source tokens over all legs, assuming the same sentence lengths in each.

    The first number is that of one decoding. The second is the most that is decoded again because
    translations lack glossary terms.
    """
    jobs = [
        (directed.model.manifest, _job(request, last=directed is route[-1]).decoding)
        for directed in route
    ]
    once = again = 0
    for number, sentence in (each for text in texts for each in enumerate(text.sentences)):
        work = sum(
            (1 if number else 1 + decoding.alternatives)
            * decoding.work(manifest.decoding, manifest.limits, len(sentence.source_ids))
            for manifest, decoding in jobs
        )
        # The graph that scores reads a sentence once.
        once += work + len(sentence.source_ids) * request.confidence
        again += work * min(len(sentence.occurrences), MOST_FORCED)
    return once, again


def _job(request: TranslateRequest, *, last: bool) -> Job:
    if last:
        return Job(
            request.decoding, request.splitting, request.terms, request.prefix, request.markup
        )
    # Prefix, lengths and number of hypotheses apply to the last leg only.
    asked = request.decoding
    decoding = DecodingOverrides(beam_size=asked.beam_size, keep_figures=asked.keep_figures)
    return Job(decoding, request.splitting, ())


def _deliverer(
    order: OrderedParts, read: Sequence[ReadText], texts: Sequence[Text]
) -> DeliverSentence:
    """Callback that passes sentences to ``order`` with their text number in the request."""
    for each, text in zip(read, texts, strict=True):
        order.begin(each.number, text)
    return lambda text, sentence, target: order.deliver(read[text].number, sentence, target)


def require_unicode(texts: Sequence[str]) -> None:
    """Raises ``InvalidText`` for a text with a lone surrogate."""
    for number, text in enumerate(texts, start=1):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InvalidText(number) from error
