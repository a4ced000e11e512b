"""What one model does for texts: its sentences are decoded together, and marked up again."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace

from service.engine.types import Decoded, DecodingOptions, FinishReason, Hypothesis, Priority
from service.translation.alignment import Alignment
from service.translation.attention import align
from service.translation.insistence import Forced, displaced, insist
from service.translation.loaded import Way
from service.translation.preparing import Sentence, Text
from service.translation.terms import honour
from service.translation.together import together
from service.translation.types import Leg, TranslatedSentence

Tell = Callable[[int, int, str], None]
"""Hears of a finished sentence: the number of its text, its own, and what it became."""
Turn = AbstractAsyncContextManager[None]
"""Is entered before the first sentence is decoded and left after the last."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How the sentences of a request stand in the line."""

    priority: Priority
    request: int
    """Its number."""


@dataclass(frozen=True, slots=True)
class _Done:
    sentence: Sentence
    decoded: Decoded
    rendered: tuple[str, ...]
    """Each hypothesis with the markup of its source."""
    target: str
    """The best one without."""


@dataclass(frozen=True, slots=True)
class TextDone:
    """A text after one leg. See ``Translation`` for hypotheses and scores."""

    hypotheses: tuple[str, ...]
    scores: tuple[float, ...]
    leg: Leg
    source_tokens: int
    target_tokens: int
    finish_reason: FinishReason
    queued: float
    decoding: float


async def run_leg(
    way: Way,
    texts: Sequence[Text],
    standing: Standing,
    tell: Tell | None = None,
    turn: Turn | None = None,
) -> list[TextDone]:
    """Decode every sentence of the texts; the first that fails fails them all.

    Given a ``turn``, all sentences enter the line before any leaves it.
    """

    async def one(text: int, number: int, sentence: Sentence) -> _Done:
        done = await _sentence(way, sentence, standing)
        if tell is not None:
            tell(text, number, done.rendered[0])
        return done

    async with turn or nullcontext(), together() as group:
        with way.model.engine.gathering() if turn is not None else nullcontext():
            tasks = [
                [
                    group.create_task(one(text, number, sentence))
                    for number, sentence in enumerate(texts[text].sentences)
                ]
                for text in range(len(texts))
            ]
            if turn is not None:
                await _given()
    return [
        _text(way, text, [task.result() for task in of_text])
        for text, of_text in zip(texts, tasks, strict=True)
    ]


async def _given() -> None:
    """Until every task has given its sentence to the engine."""
    # It takes one turn of the event loop itself, and the question it asks takes another.
    for _ in range(2):
        await asyncio.sleep(0)


async def _sentence(way: Way, sentence: Sentence, standing: Standing) -> _Done:
    decoded = await _decoded(way, sentence.source_ids, sentence.options, standing)
    forced = Forced()
    if sentence.said:
        decoded, forced = await _with_terms(way, sentence, decoded, standing)
    targets = [way.model.tokenizers.target.decode(h.token_ids) for h in decoded.hypotheses]
    rendered = [
        await _rendered(way, sentence, hypothesis, target, forced)
        for hypothesis, target in zip(decoded.hypotheses, targets, strict=True)
    ]
    return _Done(sentence, decoded, tuple(rendered), targets[0])


async def _decoded(
    way: Way, source_ids: tuple[int, ...], options: DecodingOptions, standing: Standing
) -> Decoded:
    """What the sentence becomes, without what the decoder was fed before it could choose."""
    decoded = await way.model.results.decode(
        source_ids, options, standing.priority, standing.request
    )
    forced = options.forced_prefix_length
    if not forced:
        return decoded
    hypotheses = (replace(h, token_ids=h.token_ids[forced:]) for h in decoded.hypotheses)
    return replace(decoded, hypotheses=tuple(hypotheses))


async def _rendered(
    way: Way, sentence: Sentence, hypothesis: Hypothesis, target: str, forced: Forced
) -> str:
    """A translation with its terms and with the markup of its source."""
    alignment = None
    if sentence.marked.marked or sentence.said:
        alignment = await _align(way, sentence, hypothesis, target)
    if sentence.said and alignment is not None:
        insisted = insist(target, sentence.said, alignment, forced)
        return sentence.marked.render(insisted.text, insisted.alignment, insisted.written)
    return sentence.marked.render(target, alignment)


async def _align(way: Way, sentence: Sentence, hypothesis: Hypothesis, target: str) -> Alignment:
    return await align(way, sentence.text, target, sentence.source_ids, hypothesis.token_ids)


async def _with_terms(
    way: Way, sentence: Sentence, decoded: Decoded, standing: Standing
) -> tuple[Decoded, Forced]:
    """What the sentence becomes when every hypothesis begins as its terms demand, and that."""
    latest, tokenizer = decoded, way.model.tokenizers.target
    forced = sentence.options.forced_prefix_length
    given = beginning = tokenizer.decode(sentence.options.target_prefix[forced:])

    def best() -> Hypothesis:
        return latest.hypotheses[0]

    async def aligned(translation: str) -> Alignment:
        return await _align(way, sentence, best(), translation)

    async def go_on(prefix: str) -> str | None:
        nonlocal latest, beginning
        token_ids = way.written(tokenizer.encode(prefix))
        if len(token_ids) >= way.model.manifest.limits.target_length:
            return None
        longest = sentence.options.max_decoding_length
        options = replace(
            sentence.options,
            target_prefix=token_ids,
            prefix_bias_beta=0.0,
            max_decoding_length=max(longest, len(token_ids) + 1),
        )
        latest = await _decoded(way, sentence.source_ids, options, standing)
        beginning = prefix
        return tokenizer.decode(best().token_ids)

    def sayable(text: str) -> bool:
        return tokenizer.decode(tokenizer.encode(text)) == text

    first = tokenizer.decode(best().token_ids)
    gone = displaced(first, sentence.said, await aligned(first))
    said = [each for each in sentence.said if sayable(each.term.target)]
    await honour(first, said, aligned, go_on, prefix=given)
    return latest, Forced(given, beginning, gone)


def _text(way: Way, text: Text, done: Sequence[_Done]) -> TextDone:
    def rank(number: int) -> tuple[str, float]:
        """Each sentence's hypothesis of this rank, or its last."""
        left = [min(number, len(each.rendered) - 1) for each in done]
        rendered = [each.rendered[n] for each, n in zip(done, left, strict=True)]
        scores = [each.decoded.hypotheses[n].score for each, n in zip(done, left, strict=True)]
        return text.join(rendered), math.fsum(scores) / len(scores) if scores else math.nan

    ranks = [rank(n) for n in range(max((len(each.rendered) for each in done), default=1))]
    cut = any(each.decoded.finish_reason is FinishReason.LENGTH for each in done)
    sentences = tuple(
        TranslatedSentence(
            source=each.sentence.text,
            target=each.target,
            source_ids=each.sentence.source_ids,
            target_ids=each.decoded.hypotheses[0].token_ids,
            score=each.decoded.hypotheses[0].score,
            finish_reason=each.decoded.finish_reason,
        )
        for each in done
    )
    durations = [each.decoded.durations for each in done]
    return TextDone(
        hypotheses=tuple(hypothesis for hypothesis, _ in ranks),
        scores=tuple(score for _, score in ranks),
        leg=Leg(way.model.name, way.model.manifest.version, way.pair, sentences),
        source_tokens=sum(way.text_tokens(sentence.source_ids) for sentence in sentences),
        target_tokens=sum(len(sentence.target_ids) for sentence in sentences),
        finish_reason=FinishReason.LENGTH if cut else FinishReason.COMPLETE,
        queued=max((d.queued for d in durations), default=0.0),
        decoding=max((d.decoding for d in durations), default=0.0),
    )
