"""Translates requests in three stages: read, decode, write.

``RequestReader`` makes token ids of a request, a ``Decoder`` searches, and
``service.translation.sentence_output`` makes text of the results. All sentences of a language pair
are decoded in one call, together with those of other requests; batch composition does not change a
translation. Without a direct model, two models translate through a pivot: the second reads the
first one's output, markup included, and is decoded in a second call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol

from service.catalogue.catalogue import Catalogue
from service.catalogue.errors import ModelReplaced, NotReady
from service.catalogue.loaded_model import DirectedModel
from service.engine.errors import SentenceTooLong
from service.engine.types import Decoded, DecodingOptions
from service.text.confidence import Confidence
from service.threads.time_slices import TimeSlices
from service.translation.decoder import Decoder
from service.translation.forced_pass import sentence_confidence, written_ids
from service.translation.memory_use import with_adapted_unit
from service.translation.ordered_parts import OrderedParts
from service.translation.preparing import Job, Sentence, Text
from service.translation.request_reader import (
    Detector,
    PairTexts,
    Prepared,
    RequestReader,
    WrittenSentences,
)
from service.translation.sentence_output import chosen, forced_passes, translated_sentence
from service.translation.tasks import results_of, together
from service.translation.token_alternatives import decode_alternatives
from service.translation.types import Leg, Part, TranslatedSentence, TranslateRequest, Translation

_MOST_ATTEMPTS = 3
"""Readings of a request, at most, whose models are replaced before it is decoded."""

_MOST_WRITERS = 8
"""Sentences of a request that wait for the word alignment at a time. A model aligns one at a time,
and each that waits is a task, which has to be cancelled with the request."""


class Offering(Protocol):
    """The models on offer, such as a ``ModelRepository``."""

    @property
    def catalogue(self) -> Catalogue:
        """Raises ``NotReady`` if there is no model."""
        ...


class Translator:
    """Event loop only."""

    def __init__(
        self,
        models: Offering,
        detector: Detector,
        refuse_if_full: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``refuse_if_full`` is that of ``RequestReader``."""
        self._models = models
        self.reader = RequestReader(detector, refuse_if_full)

    async def read(self, request: TranslateRequest, caller: str = "") -> Prepared:
        """The first stage, with the models on offer; see ``RequestReader.read``."""
        return await self.reader.read(request, self._models.catalogue, caller)

    async def translate(
        self,
        prepared: Prepared,
        decoder: Decoder,
        deliver: Callable[[Part], None] | None = None,
        caller: str = "",
    ) -> list[Translation]:
        """Translate every text, in order. Cancelling the call frees its rows at once.

        ``deliver`` is called with each sentence as soon as it and all before it are done. A request
        whose model is replaced before it is decoded is read again. Raises a ``TranslationError`` or
        an ``EngineError``.
        """
        delivered = False

        def note(part: Part) -> None:
            nonlocal delivered
            assert deliver is not None
            delivered = True
            deliver(part)

        for _ in range(_MOST_ATTEMPTS):
            try:
                return await self._decode_and_write(
                    prepared, decoder, None if deliver is None else note, caller
                )
            except ModelReplaced:
                if delivered:
                    break
            prepared = await self.read(prepared.request, caller)
        raise NotReady("the models are being replaced; try again")

    async def stream(
        self, prepared: Prepared, decoder: Decoder, caller: str = ""
    ) -> AsyncGenerator[Part | list[Translation], None]:
        """Yields the parts of every text in order, then all translations. Closing cancels."""
        parts: asyncio.Queue[Part | None] = asyncio.Queue()
        work = asyncio.create_task(self.translate(prepared, decoder, parts.put_nowait, caller))
        work.add_done_callback(lambda _: parts.put_nowait(None))
        try:
            slices = TimeSlices()
            while (part := await parts.get()) is not None:
                yield part
                await slices.pause()
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

    async def too_long(self, request: TranslateRequest) -> dict[int, SentenceTooLong]:
        """Errors by text number, from 0, of texts with a word too long for the first model."""
        catalogue = self._models.catalogue
        found: dict[int, SentenceTooLong] = {}
        for each in await self.reader.read_texts(request, catalogue):
            (first, *_) = catalogue.route(
                each.pair, request.model, request.permission, request.chooses_by
            )
            try:
                await self.reader.prepared([each.marked], first, Job.of(request))
            except SentenceTooLong as error:
                found[each.number] = error
        return found

    async def _decode_and_write(
        self,
        prepared: Prepared,
        decoder: Decoder,
        deliver: Callable[[Part], None] | None,
        caller: str,
    ) -> list[Translation]:
        count = len(prepared.request.texts)
        order = None if deliver is None else OrderedParts(count, deliver)
        done = await results_of(
            [self._group(prepared, group, decoder, order, caller) for group in prepared.groups]
        )
        translations = dict(pair for group in done for pair in group)
        return [translations[number] for number in range(count)]

    async def _group(
        self,
        prepared: Prepared,
        group: PairTexts,
        decoder: Decoder,
        order: OrderedParts | None,
        caller: str,
    ) -> list[tuple[int, Translation]]:
        """Translate the texts of one language pair; without a route they stay unchanged."""
        if not group.route:
            for each in group.read:
                if order is not None:
                    order.whole(each.number, each.text)
            return [
                (each.number, Translation(each.pair, (), each.text, each.detection))
                for each in group.read
            ]
        request, texts, work = prepared.request, list(group.texts), group.work
        legs: list[list[Leg]] = []
        preparing = prepared.seconds
        for number, directed in enumerate(group.route):
            last = number == len(group.route) - 1
            if number:
                started = time.perf_counter()
                marked = await self.reader.parsed(
                    [leg.hypotheses[0] for leg in legs[-1]], request.markup, caller
                )
                job = Job.of(request, last=last)
                texts, work = await self.reader.prepared(marked, directed, job, caller), 0
                preparing += time.perf_counter() - started
            deliver = _deliverer(order, group, texts) if order is not None and last else None
            known = None if number else prepared.written
            legs.append(await _leg(directed, texts, decoder, work, deliver, known))
        sure: Sequence[tuple[Confidence, ...] | None] = [None] * len(texts)
        if request.confidence:
            sure = await _confidences(group.route[-1], legs[-1], decoder)
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
            for each, of_text, of_sentences in zip(
                group.read, zip(*legs, strict=True), sure, strict=True
            )
        ]


Identity = int
"""The ``id`` of a sentence."""
DeliverSentence = Callable[[int, int, str], None]
"""Callback for a finished sentence: text number, sentence number, translation."""


def _deliverer(order: OrderedParts, group: PairTexts, texts: Sequence[Text]) -> DeliverSentence:
    """Callback that passes sentences to ``order`` with their text number in the request."""
    for each, text in zip(group.read, texts, strict=True):
        order.begin(each.number, text)
    return lambda text, sentence, target: order.deliver(group.read[text].number, sentence, target)


async def _leg(
    directed: DirectedModel,
    texts: Sequence[Text],
    decoder: Decoder,
    work: int,
    deliver: DeliverSentence | None,
    known: WrittenSentences | None,
) -> list[Leg]:
    """Decode and write every sentence of the texts. The first failure cancels all.

    Sentences that are one object are decoded and written once; those in ``known``, which also gets
    them, are written again only if their results are others.
    """
    places: dict[Identity, list[tuple[int, int]]] = {}
    sentences: dict[Identity, Sentence] = {}
    for number, text in enumerate(texts):
        for place, sentence in enumerate(text.sentences):
            places.setdefault(id(sentence), []).append((number, place))
            sentences[id(sentence)] = sentence
    searched = [sentence for sentence in sentences.values() if not sentence.alternatives]
    sources = [(sentence.source_ids, sentence.options) for sentence in searched]
    written: dict[Identity, TranslatedSentence] = {}
    slices = TimeSlices()

    async def keep(sentence: Sentence, done: TranslatedSentence) -> None:
        written[id(sentence)] = done
        if deliver is not None:
            for number, place in places[id(sentence)]:
                deliver(number, place, done.hypotheses[0])
                await slices.pause()

    async def write(sentence: Sentence, decoded: Decoded) -> None:
        done = None if known is None else known.of(sentence, decoded)
        if done is None:
            done = await written_anew(sentence, decoded)
            if known is not None:
                known.keep(sentence, decoded, done)
        await keep(sentence, done)

    async def written_anew(sentence: Sentence, decoded: Decoded) -> TranslatedSentence:
        best = chosen(directed, sentence, sentence.options, decoded)
        passes = await forced_passes(directed, sentence, best, decoder)
        done = translated_sentence(directed, sentence, best, sentence.options, passes)
        if sentence.adaptable:
            done = await with_adapted_unit(directed, sentence, best, passes[0], done, decoder)
        return done

    if deliver is None and not any(sentence.needs_alignment for sentence in searched):
        # Nothing is gained by writing some sentences while others are being decoded.
        for sentence, decoded in zip(
            searched, await decoder.decode(directed.model, sources, work), strict=True
        ):
            await write(sentence, decoded)
            await slices.pause()
    else:
        waiting: asyncio.Queue[tuple[int, Decoded] | None] = asyncio.Queue()

        async def write_all() -> None:
            while (each := await waiting.get()) is not None:
                await write(searched[each[0]], each[1])
                await slices.pause()

        async with together() as group:
            writers = [group.create_task(write_all()) for _ in searched[:_MOST_WRITERS]]
            await decoder.decode(
                directed.model, sources, work, lambda *each: waiting.put_nowait(each)
            )
            for _ in writers:
                waiting.put_nowait(None)
    for sentence in sentences.values():
        if sentence.alternatives:
            await keep(sentence, await _alternatives(directed, sentence, decoder))
    tokens = {
        identity: directed.text_tokens(sentence.source_ids)
        for identity, sentence in sentences.items()
    }
    return [
        Leg(
            directed.model.name,
            directed.model.manifest.version,
            directed.pair,
            text.separators,
            tuple([written[id(sentence)] for sentence in text.sentences]),
            sum(tokens[id(sentence)] for sentence in text.sentences),
            text.exact,
        )
        for text in texts
    ]


async def _alternatives(
    directed: DirectedModel, sentence: Sentence, decoder: Decoder
) -> TranslatedSentence:
    """The translations of a sentence that begin with each of its likeliest tokens."""
    decode = partial(decode_sentence, directed, sentence, decoder)
    decoded, options = await decode_alternatives(sentence.options, sentence.alternatives, decode)
    passes = await forced_passes(directed, sentence, decoded, decoder)
    return translated_sentence(directed, sentence, decoded, options, passes)


async def decode_sentence(
    directed: DirectedModel,
    sentence: Sentence,
    decoder: Decoder,
    options: DecodingOptions,
    work: int = 0,
) -> Decoded:
    """One sentence decoded with these options, without the forced prefix of the direction.

    Raises the errors of ``Decoder.decode``.
    """
    (decoded,) = await decoder.decode(directed.model, [(sentence.source_ids, options)], work)
    return chosen(directed, sentence, options, decoded)


async def _confidences(
    directed: DirectedModel, legs: Sequence[Leg], decoder: Decoder
) -> list[tuple[Confidence, ...]]:
    """The confidence of each sentence of texts that ``directed`` has translated without markup.

    Words have their place in the best hypothesis of the whole text. Sentences are read one at a
    time, so that a long text does not hold up short ones, and those that are one object once.
    Raises the errors of ``Decoder.teacher_force``.
    """
    known: dict[Identity, Confidence] = {}
    found: list[tuple[Confidence, ...]] = []
    for leg in legs:
        of_text = []
        first = 0
        for separator, sentence in zip(leg.separators, leg.sentences, strict=False):
            first += len(separator)
            if id(sentence) not in known:
                written = written_ids(directed, sentence.target_ids)
                forced = await decoder.teacher_force(directed.model, sentence.source_ids, written)
                known[id(sentence)] = await asyncio.to_thread(
                    sentence_confidence, directed, forced, sentence
                )
            of_text.append(known[id(sentence)].moved(first))
            first += len(sentence.hypotheses[0])
        found.append(tuple(of_text))
    return found
