"""Translates texts with one model: decodes sentences, inserts terms, places markup, joins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from service.engine.types import Decoded, DecodingOptions, Hypothesis, Priority
from service.translation.figure_agreement import best_by_figures
from service.translation.glossary.term_insertion import insert_terms
from service.translation.loaded_model import DirectedModel
from service.translation.output_text import (
    OutputText,
    aligned,
    output_text,
    with_beginning,
    without_added_full_stop,
)
from service.translation.preparing import Sentence, Text
from service.translation.tasks import results_of, together
from service.translation.token_alternatives import decode_alternatives
from service.translation.types import Leg, TranslatedSentence
from service.translation.unknown_tokens import spelled_out

DeliverSentence = Callable[[int, int, str], None]
"""Callback for a finished sentence: text number, sentence number, translation."""
Turn = AbstractAsyncContextManager[None]
"""Held from before the first sentence is queued until the last is decoded."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Priority, number and caller of a request in the engine's queue, and its scope of shared
    results."""

    priority: Priority
    request: int
    cache_scope: str = ""
    caller: str = ""


async def run_leg(
    directed: DirectedModel,
    texts: Sequence[Text],
    standing: Standing,
    deliver: DeliverSentence | None = None,
    turn: Turn | None = None,
) -> list[Leg]:
    """Decode every sentence of the texts. The first failure cancels all.

    With a ``turn``, all sentences are queued before the engine admits the first.
    """

    async def one(text: int, number: int, sentence: Sentence) -> TranslatedSentence:
        done = await _sentence(directed, sentence, standing)
        if deliver is not None:
            deliver(text, number, done.hypotheses[0])
        return done

    places = [
        (text, number, sentence)
        for text in range(len(texts))
        for number, sentence in enumerate(texts[text].sentences)
    ]
    if turn is not None:
        async with turn, together() as group:
            with directed.model.engine.gathering():
                tasks = [group.create_task(one(*place)) for place in places]
                await _given()
        done = [task.result() for task in tasks]
    else:
        done = await results_of([one(*place) for place in places])
    results = iter(done)
    return [
        joined_leg(directed, text, list(islice(results, len(text.sentences)))) for text in texts
    ]


async def _given() -> None:
    """Wait until every task has queued its sentence in the engine."""
    # One turn of the event loop starts the tasks, another the decoding tasks of the result cache.
    for _ in range(2):
        await asyncio.sleep(0)


async def _sentence(
    directed: DirectedModel, sentence: Sentence, standing: Standing
) -> TranslatedSentence:
    options = sentence.options
    if sentence.alternatives:
        decode = partial(decode_sentence, directed, sentence, standing=standing)
        decoded, options = await decode_alternatives(options, sentence.alternatives, decode)
    else:
        decoded = await decode_sentence(directed, sentence, options, standing)
    return await translated_sentence(directed, sentence, decoded, options, standing.caller)


async def translated_sentence(
    directed: DirectedModel,
    sentence: Sentence,
    decoded: Decoded,
    options: DecodingOptions,
    caller: str,
) -> TranslatedSentence:
    """The translation of a sentence that ``chosen`` returned, decoded with ``options``.

    Raises the errors of ``AttentionReader.read``.
    """
    outputs = [
        await final_text(directed, sentence, hypothesis, sentence.prefix, caller)
        for hypothesis in decoded.hypotheses
    ]
    rendered = [
        await rendered_text(directed, sentence, hypothesis, output, caller)
        for hypothesis, output in zip(decoded.hypotheses, outputs, strict=True)
    ]
    return TranslatedSentence(
        source=sentence.text,
        target=outputs[0].text,
        source_ids=sentence.source_ids,
        target_ids=decoded.hypotheses[0].token_ids,
        hypotheses=tuple(rendered),
        scores=tuple(hypothesis.score for hypothesis in decoded.hypotheses),
        finish_reason=decoded.finish_reason,
        options=options,
        edits=outputs[0].edits,
        durations=decoded.durations,
    )


async def decode_sentence(
    directed: DirectedModel, sentence: Sentence, options: DecodingOptions, standing: Standing
) -> Decoded:
    """The decoded sentence without the forced target prefix of the direction.

    Raises the errors of ``Engine.decode``.
    """
    decoded = await directed.model.results.decode(
        sentence.source_ids,
        options,
        standing.priority,
        standing.request,
        standing.cache_scope,
        standing.caller,
    )
    return chosen(directed, sentence, options, decoded)


def chosen(
    directed: DirectedModel, sentence: Sentence, options: DecodingOptions, decoded: Decoded
) -> Decoded:
    """An engine's result without the direction's prefix, best hypothesis by the figures first."""
    if forced := options.forced_prefix_length:
        hypotheses = (replace(h, token_ids=h.token_ids[forced:]) for h in decoded.hypotheses)
        decoded = replace(decoded, hypotheses=tuple(hypotheses))
    if options.all_finished:
        return best_by_figures(sentence.text, decoded, directed.model.tokenizers.target.decode)
    return decoded


async def final_text(
    directed: DirectedModel, sentence: Sentence, hypothesis: Hypothesis, prefix: str, caller: str
) -> OutputText:
    """The text of a hypothesis as users get it, but for glossary terms and markup.

    Raises the errors of ``AttentionReader.read``.
    """
    output = await output_text(directed, sentence, hypothesis, prefix, caller)
    tokenizer = directed.model.tokenizers.target
    output = with_beginning(output, hypothesis.token_ids, sentence.beginning.text, tokenizer)
    return without_added_full_stop(output, sentence, prefix)


async def rendered_text(
    directed: DirectedModel,
    sentence: Sentence,
    hypothesis: Hypothesis,
    output: OutputText,
    caller: str,
) -> str:
    """The text of a hypothesis with its glossary terms and the markup of the source.

    Raises the errors of ``AttentionReader.read``.
    """
    beginning = sentence.beginning
    if not (sentence.marked.marked or sentence.occurrences):
        return sentence.marked.render(output.text, None, beginning=beginning)
    found = await aligned(directed, sentence, hypothesis, output, caller)
    if sentence.occurrences:
        prefix = spelled_out(sentence.prefix, directed.model.tokenizers.target)
        found = insert_terms(found.text, sentence.occurrences, found.alignment, prefix)
    return sentence.marked.render(found.text, found.alignment, found.written, beginning)


def joined_leg(directed: DirectedModel, text: Text, sentences: Sequence[TranslatedSentence]) -> Leg:
    return Leg(
        directed.model.name,
        directed.model.manifest.version,
        directed.pair,
        text.separators,
        tuple(sentences),
        sum(directed.text_tokens(sentence.source_ids) for sentence in sentences),
    )
