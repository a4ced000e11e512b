"""Translates texts with one model: decodes sentences, forces terms, places markup, joins."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace

from service.engine.types import Decoded, DecodingOptions, FinishReason, Hypothesis, Priority
from service.translation.alignment import Alignment
from service.translation.figure_agreement import best_by_figures
from service.translation.glossary.term_insertion import Forced, displaced, insist
from service.translation.glossary.terms import force_terms
from service.translation.loaded_model import DirectedModel
from service.translation.output_text import (
    OutputText,
    aligned,
    output_text,
    without_added_full_stop,
)
from service.translation.preparing import Sentence, Text
from service.translation.task_group import together
from service.translation.types import Leg, TranslatedSentence
from service.translation.unknown_tokens import spelled_out

DeliverSentence = Callable[[int, int, str], None]
"""Callback for a finished sentence: text number, sentence number, translation."""
Turn = AbstractAsyncContextManager[None]
"""Held from before the first sentence is queued until the last is decoded."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Priority and number of a request in the engine's queue."""

    priority: Priority
    request: int


@dataclass(frozen=True, slots=True)
class _Done:
    sentence: Sentence
    decoded: Decoded
    rendered: tuple[str, ...]
    """The hypotheses with the markup of the source."""
    best: OutputText
    """The best hypothesis without markup."""


@dataclass(frozen=True, slots=True)
class TextDone:
    """A text translated by one model. See ``Translation`` for hypotheses and scores."""

    hypotheses: tuple[str, ...]
    scores: tuple[float, ...]
    leg: Leg
    source_tokens: int
    target_tokens: int
    finish_reason: FinishReason
    queued: float
    decoding: float


async def run_leg(
    way: DirectedModel,
    texts: Sequence[Text],
    standing: Standing,
    deliver: DeliverSentence | None = None,
    turn: Turn | None = None,
) -> list[TextDone]:
    """Decode every sentence of the texts. The first failure cancels all.

    With a ``turn``, all sentences are queued before the engine admits the first.
    """

    async def one(text: int, number: int, sentence: Sentence) -> _Done:
        done = await _sentence(way, sentence, standing)
        if deliver is not None:
            deliver(text, number, done.rendered[0])
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
    """Wait until every task has queued its sentence in the engine."""
    # One turn of the event loop starts the tasks, another the decoding tasks of the result cache.
    for _ in range(2):
        await asyncio.sleep(0)


async def _sentence(way: DirectedModel, sentence: Sentence, standing: Standing) -> _Done:
    decoded = await _decoded(way, sentence, sentence.options, standing)
    forced = Forced()
    prefix = sentence.prefix
    if sentence.said:
        decoded, forced = await _with_terms(way, sentence, decoded, standing)
        prefix = forced.beginning
    outputs = [
        without_added_full_stop(
            await output_text(way, sentence, hypothesis, prefix), sentence, prefix
        )
        for hypothesis in decoded.hypotheses
    ]
    rendered = [
        await _rendered(way, sentence, hypothesis, output, forced)
        for hypothesis, output in zip(decoded.hypotheses, outputs, strict=True)
    ]
    return _Done(sentence, decoded, tuple(rendered), outputs[0])


async def _decoded(
    way: DirectedModel, sentence: Sentence, options: DecodingOptions, standing: Standing
) -> Decoded:
    """The decoded sentence without the forced target prefix of the direction."""
    decoded = await way.model.results.decode(
        sentence.source_ids, options, standing.priority, standing.request
    )
    if forced := options.forced_prefix_length:
        hypotheses = (replace(h, token_ids=h.token_ids[forced:]) for h in decoded.hypotheses)
        decoded = replace(decoded, hypotheses=tuple(hypotheses))
    if options.all_finished:
        return best_by_figures(sentence.text, decoded, way.model.tokenizers.target.decode)
    return decoded


async def _rendered(
    way: DirectedModel,
    sentence: Sentence,
    hypothesis: Hypothesis,
    output: OutputText,
    forced: Forced,
) -> str:
    """The text of a hypothesis with its glossary terms and the markup of the source."""
    if not (sentence.marked.marked or sentence.said):
        return sentence.marked.render(output.text, None)
    found = await aligned(way, sentence, hypothesis, output)
    if sentence.said:
        found = insist(found.text, sentence.said, found.alignment, forced)
    return sentence.marked.render(found.text, found.alignment, found.written)


async def _with_terms(
    way: DirectedModel, sentence: Sentence, decoded: Decoded, standing: Standing
) -> tuple[Decoded, Forced]:
    """The sentence decoded with forced terms, and the forced beginning."""
    latest, tokenizer = decoded, way.model.tokenizers.target
    given = beginning = spelled_out(sentence.prefix, tokenizer)

    def best() -> Hypothesis:
        return latest.hypotheses[0]

    output = await output_text(way, sentence, best(), given)
    first = output.text

    async def align_latest(translation: str) -> Alignment:
        return (await aligned(way, sentence, best(), output)).alignment

    async def go_on(prefix: str) -> str | None:
        nonlocal latest, beginning, output
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
        latest = await _decoded(way, sentence, options, standing)
        beginning = prefix
        output = await output_text(way, sentence, best(), prefix)
        return output.text

    def sayable(text: str) -> bool:
        return tokenizer.decode(tokenizer.encode(text)) == text

    gone = displaced(first, sentence.said, await align_latest(first))
    said = [each for each in sentence.said if sayable(each.term.target)]
    await force_terms(first, said, align_latest, go_on, prefix=given)
    return latest, Forced(given, beginning, gone)


def _text(way: DirectedModel, text: Text, done: Sequence[_Done]) -> TextDone:
    def rank(number: int) -> tuple[str, float]:
        """The text and mean score from each sentence's hypothesis of this rank, or its last."""
        left = [min(number, len(each.rendered) - 1) for each in done]
        rendered = [each.rendered[n] for each, n in zip(done, left, strict=True)]
        scores = [each.decoded.hypotheses[n].score for each, n in zip(done, left, strict=True)]
        return text.join(rendered), math.fsum(scores) / len(scores) if scores else math.nan

    ranks = [rank(n) for n in range(max((len(each.rendered) for each in done), default=1))]
    cut = any(each.decoded.finish_reason is FinishReason.LENGTH for each in done)
    sentences = tuple(
        TranslatedSentence(
            source=each.sentence.text,
            target=each.best.text,
            source_ids=each.sentence.source_ids,
            target_ids=each.decoded.hypotheses[0].token_ids,
            score=each.decoded.hypotheses[0].score,
            finish_reason=each.decoded.finish_reason,
            edits=each.best.edits,
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
