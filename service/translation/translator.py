"""The use case: texts in, translations out. Knows no HTTP and no tensors.

A request's sentences are admitted all together or not at all, and decoded concurrently in the
company of everybody else's; that company changes no translation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from service.engine.types import Decoded, DecodingOptions, FinishReason, Priority
from service.translation.errors import InvalidText, Overloaded, TextTooLarge
from service.translation.repository import LoadedModel, ModelRepository
from service.translation.segmentation import SegmentedText, TokenLimit, segment
from service.translation.types import LanguagePair, TranslateRequest, Translation

# Splitting and tokenising this much takes a few milliseconds; more of it would be felt by
# everybody else on the event loop.
_CHARACTERS_ON_THE_LOOP = 4_000


@dataclass(frozen=True, slots=True)
class _Sentence:
    source_ids: tuple[int, ...]
    """Ends with ``eos``."""
    options: DecodingOptions


@dataclass(frozen=True, slots=True)
class _Text:
    segmented: SegmentedText
    sentences: tuple[_Sentence, ...]


class Translator:
    """``max_sentences`` bounds the sentences of all requests that are waiting or running."""

    def __init__(self, repository: ModelRepository, *, max_sentences: int) -> None:
        self._repository = repository
        self._capacity = max_sentences
        self._free = max_sentences

    @property
    def in_flight(self) -> int:
        """Sentences admitted and not yet answered."""
        return self._capacity - self._free

    def pair(self, source: str, target: str) -> LanguagePair:
        """The pair of two codes in any spelling; raises by name if it is not on offer."""
        return self._repository.offer.pair(source, target)

    async def translate(self, request: TranslateRequest) -> list[Translation]:
        """Translate every text, in order. Cancelling the call frees what it holds at once."""
        _require_unicode(request.texts)
        if request.pair.source == request.pair.target:
            return [_unchanged(text, request.pair) for text in request.texts]
        async with self._repository.lease(request.pair) as model:
            if self._free == 0:
                raise Overloaded
            texts = await _prepared(request, model)
            with self._admitted(sum(len(text.sentences) for text in texts)):
                decoded = await _decoded(texts, model, request.priority)
            return [
                _translation(text, of_text, request.pair, model)
                for text, of_text in zip(texts, decoded, strict=True)
            ]

    @contextmanager
    def _admitted(self, sentences: int) -> Iterator[None]:
        if sentences > self._capacity:
            raise TextTooLarge(sentences, self._capacity)
        if sentences > self._free:
            raise Overloaded
        self._free -= sentences
        try:
            yield
        finally:
            self._free += sentences


async def _prepared(request: TranslateRequest, model: LoadedModel) -> list[_Text]:
    if sum(map(len, request.texts)) <= _CHARACTERS_ON_THE_LOOP:
        return _prepare(request, model)
    return await asyncio.to_thread(_prepare, request, model)


def _prepare(request: TranslateRequest, model: LoadedModel) -> list[_Text]:
    manifest = model.manifest
    encoded: dict[str, tuple[int, ...]] = {}

    def count(sentence: str) -> int:
        encoded[sentence] = (*model.tokenizer.encode(sentence), manifest.special_ids.eos)
        return len(encoded[sentence])

    def options(source_ids: tuple[int, ...], number: int) -> DecodingOptions:
        return request.decoding.resolve(
            manifest.decoding, manifest.limits, len(source_ids), model.tokenizer.encode, number
        )

    limit = TokenLimit(count, manifest.limits.source_length)
    texts = []
    for text in request.texts:
        segmented = segment(text, request.pair.source, limit)
        ids = [encoded[sentence] for sentence in segmented.sentences]
        sentences = tuple(_Sentence(i, options(i, number)) for number, i in enumerate(ids))
        texts.append(_Text(segmented, sentences))
    return texts


async def _decoded(
    texts: list[_Text], model: LoadedModel, priority: Priority
) -> list[list[Decoded]]:
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [
                [
                    group.create_task(
                        model.engine.decode(sentence.source_ids, sentence.options, priority)
                    )
                    for sentence in text.sentences
                ]
                for text in texts
            ]
    except ExceptionGroup as failures:
        # The others are either the same refusal or were cancelled because of the first.
        first = failures.exceptions[0]
        raise first from first.__cause__
    return [[task.result() for task in of_text] for of_text in tasks]


def _translation(
    text: _Text, decoded: list[Decoded], pair: LanguagePair, model: LoadedModel
) -> Translation:
    def hypothesis(rank: int) -> str:
        best_left = (d.hypotheses[min(rank, len(d.hypotheses) - 1)] for d in decoded)
        return text.segmented.join([model.tokenizer.decode(h.token_ids) for h in best_left])

    ranks = max((len(d.hypotheses) for d in decoded), default=1)
    cut = any(d.finish_reason is FinishReason.LENGTH for d in decoded)
    return Translation(
        hypotheses=tuple(hypothesis(rank) for rank in range(ranks)),
        pair=pair,
        model=model.name,
        source_tokens=sum(len(sentence.source_ids) - 1 for sentence in text.sentences),
        target_tokens=sum(len(d.hypotheses[0].token_ids) for d in decoded),
        finish_reason=FinishReason.LENGTH if cut else FinishReason.COMPLETE,
    )


def _unchanged(text: str, pair: LanguagePair) -> Translation:
    return Translation((text,), pair, None, 0, 0, FinishReason.COMPLETE)


def _require_unicode(texts: tuple[str, ...]) -> None:
    for number, text in enumerate(texts, start=1):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InvalidText(number) from error
