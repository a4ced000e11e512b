"""Writes the translation of a sentence as that of a similar unit of a memory, adapted to it."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

from service.catalogue.loaded_model import DirectedModel
from service.engine.types import Decoded
from service.text.faithfulness import have_same_times
from service.text.memory.adapting import AlignedTexts, adapted
from service.translation.decoder import Decoder, ForcedPass
from service.translation.forced_pass import align, have_words, written_ids
from service.translation.preparing import Sentence
from service.translation.types import TranslatedSentence


async def with_adapted_unit(
    directed: DirectedModel,
    sentence: Sentence,
    decoded: Decoded,
    forced: ForcedPass | None,
    translated: TranslatedSentence,
    decoder: Decoder,
) -> TranslatedSentence:
    """The sentence, whose best hypothesis is the unit's translation if that can be adapted.

    ``forced`` is the pass over the best hypothesis of ``decoded``; one more is made over the unit.
    Raises the errors of ``Decoder.teacher_force``.
    """
    match = sentence.match
    assert match is not None
    limits = directed.model.manifest.limits
    tokenizer = directed.model.tokenizers.target
    source_ids = directed.source_ids(match.unit.source)
    target_ids = tokenizer.encode(match.unit.target)
    written = directed.written(target_ids)
    if (
        len(source_ids) > limits.source_length
        or len(written) >= limits.target_length
        or not have_words(match.unit.source, match.unit.target)
        # A time in another language may have other words, such as p.m.
        or not have_same_times(match.unit.source, sentence.text)
        or forced is None
    ):
        return translated
    unit_pass = await decoder.teacher_force(
        directed.model, source_ids, written_ids(directed, target_ids)
    )
    best_ids = decoded.hypotheses[0].token_ids

    def write() -> str | None:
        text = tokenizer.decode(best_ids)
        unit = match.unit
        return adapted(
            AlignedTexts(
                unit.source,
                unit.target,
                align(directed, unit_pass, source_ids, target_ids, unit.source, unit.target),
            ),
            AlignedTexts(
                sentence.text,
                text,
                align(directed, forced, sentence.source_ids, best_ids, sentence.text, text),
            ),
        )

    found = await asyncio.to_thread(write)
    if found is None:
        return translated
    rendered = sentence.marked.render(found, None)
    return replace(
        translated,
        hypotheses=(rendered, *translated.hypotheses[1:]),
        # No search has scored it.
        scores=(math.nan, *translated.scores[1:]),
        match=replace(match, use="adapted"),
    )
