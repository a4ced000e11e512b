"""Likely next words at a place of a translation, each with the translation that follows from it.

Only the sentence with the place is decoded. One search finds the words and continues them
(``service.engine.constraints.AlternativeWords``), so the source is encoded once.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from service.catalogue.errors import ModelReplaced, NotReady
from service.catalogue.loaded_model import DirectedModel
from service.engine.types import MOST_ALTERNATIVES, Decoded, DecodingOptions, WordPieces
from service.text.markup import PLAIN, fragment
from service.text.types import Detection, LanguagePair
from service.text.words import words
from service.translation.beginning import begun_sentence
from service.translation.decoder import Decoder
from service.translation.decoding import NO_OVERRIDES
from service.translation.errors import InvalidOption
from service.translation.preparing import Job, Sentence
from service.translation.request_reader import require_unicode
from service.translation.sentence_output import forced_passes, rendered_text, sentence_output
from service.translation.target_sentences import TargetSentence, target_sentences
from service.translation.translator import Offering, Translator, decode_sentence
from service.translation.types import Timing, TranslateRequest

_MOST_SHOWN = 8
"""Places listed in a message."""


@dataclass(frozen=True, slots=True)
class WordPlace:
    """Place of a translation at which alternatives are wanted."""

    position: int
    """Characters before a word of the translation."""
    translation: str | None = None
    """``None`` is the translation that the service makes."""
    limit: int = 10
    """Words that are returned, at most; 1 to ``MOST_ALTERNATIVES``."""
    min_probability: float = 0.0


@dataclass(frozen=True, slots=True)
class Alternative:
    word: str
    probability: float
    """Probability of this next word, given the source and the translation before it."""
    translation: str
    """The whole translation with this word."""


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Alternatives at a place, the likeliest first."""

    translation: str
    """The translation that has the place."""
    position: int
    words: tuple[Alternative, ...]
    pair: LanguagePair
    model: str
    version: str
    detection: Detection | None = None
    tokens: int = 0
    """Tokens of the sentence and of its likeliest alternative."""
    timing: Timing = field(default=Timing(), compare=False)


class AlternativeFinder:
    def __init__(self, models: Offering, translator: Translator) -> None:
        self._models = models
        self._translator = translator

    async def find(
        self, request: TranslateRequest, place: WordPlace, decoder: Decoder, caller: str = ""
    ) -> Alternatives:
        """The alternatives at a place of the translation of a request's only text.

        Raises ``InvalidOption`` for a position where no word begins that a model has written, and
        for languages without a direct model. Also raises the errors of ``RequestReader.read`` and
        ``Translator.translate``.
        """
        require_unicode([*request.texts, place.translation or ""], request.prefix)
        reader, catalogue = self._translator.reader, self._models.catalogue
        (read,) = await reader.read_texts(request, catalogue, caller)
        if read.pair.source == read.pair.target:
            raise InvalidOption(
                f"source and target are both {read.pair.source}: nothing is translated"
            )
        translation = place.translation
        if translation is None:
            # The language is given, so that it is not detected again.
            known = replace(request, source=read.pair.source)
            prepared = await self._translator.read(known, caller)
            (translated,) = await self._translator.translate(prepared, decoder, caller=caller)
            translation = translated.text
        route = catalogue.route(read.pair, request.model, request.permission, request.chooses_by)
        if len(route) > 1:
            raise InvalidOption(f"alternatives need a model that translates {read.pair} directly")
        (directed,) = route
        job = Job(NO_OVERRIDES, request.splitting, ())
        (text,) = await reader.prepared([read.marked], directed, job, caller)
        part = await reader.pool.run(
            [translation],
            lambda _: _part_at(
                place.position,
                translation,
                target_sentences(translation, text, directed, request.splitting, PLAIN),
            ),
            caller=caller or None,
        )
        beginning = fragment(translation[part.start : place.position].rstrip(), PLAIN)
        vocabulary = await asyncio.to_thread(directed.model.vocabulary)
        sentence = begun_sentence(text.sentences[part.source], beginning, directed)
        options = _options(sentence, place, vocabulary.words)
        work = len(sentence.source_ids) * options.rows
        try:
            decoded = await decode_sentence(directed, sentence, decoder, options, work)
        except ModelReplaced as error:
            raise NotReady("the model was replaced meanwhile; try again") from error
        before, after = translation[: part.start], translation[part.end :]
        found = [
            Alternative(word, math.exp(score), before + target + after)
            for word, score, target in await _words(directed, sentence, decoded, decoder)
        ]
        return Alternatives(
            translation,
            place.position,
            _merged(found)[: place.limit],
            read.pair,
            directed.model.name,
            directed.model.manifest.version,
            read.detection,
            len(sentence.source_ids) + len(decoded.hypotheses[0].token_ids),
            Timing(0.0, decoded.durations.queued, decoded.durations.decoding),
        )


def _part_at(position: int, translation: str, parts: Sequence[TargetSentence]) -> TargetSentence:
    """The part in which ``position`` begins a word; raises ``InvalidOption``."""
    starts = [start for start, _ in words(translation)]
    if position not in starts:
        near = sorted(sorted(starts, key=lambda start: abs(start - position))[:_MOST_SHOWN])
        shown = f"words begin at {', '.join(map(str, near))}" if near else "it has no words"
        raise InvalidOption(f"position {position} is not the beginning of a word; {shown}")
    for part in parts:
        if part.start <= position < part.end:
            return part
    raise InvalidOption(
        f"position {position} is in a part of the translation that is copied from the text"
    )


def _options(sentence: Sentence, place: WordPlace, pieces: WordPieces) -> DecodingOptions:
    return replace(
        sentence.options,
        beam_size=min(2 * place.limit, MOST_ALTERNATIVES),
        num_hypotheses=place.limit,
        length_penalty=0.0,
        min_decoding_length=0,
        all_finished=False,
        alternative_words=pieces,
        min_alternative_expansion_prob=place.min_probability,
    )


async def _words(
    directed: DirectedModel, sentence: Sentence, decoded: Decoded, decoder: Decoder
) -> list[tuple[str, float, str]]:
    """The next word of each hypothesis, its log-probability, and the text of the sentence."""
    beginning = sentence.beginning.text
    given = len(directed.model.tokenizers.target.encode(beginning))
    found = []
    passes = await forced_passes(directed, sentence, decoded, decoder)
    for hypothesis, forced in zip(decoded.hypotheses, passes, strict=True):
        output = sentence_output(directed, sentence, hypothesis, beginning, forced)
        place = next((span for span in words(output.text) if span[1] > len(beginning)), None)
        # Without a likely word, the search returns the beginning alone. A word that began before
        # is another one than that at the place.
        if len(hypothesis.token_ids) > given and place is not None and place[0] >= len(beginning):
            target = rendered_text(directed, sentence, hypothesis, output, forced)
            found.append((output.text[slice(*place)], hypothesis.score, target))
    return found


def _merged(found: Sequence[Alternative]) -> tuple[Alternative, ...]:
    """One alternative for each word, the likeliest first. Several tokenisations are one word."""
    by_word: dict[str, Alternative] = {}
    for each in found:
        first = by_word.setdefault(each.word, each)
        if first is not each:
            probability = min(1.0, first.probability + each.probability)
            by_word[each.word] = replace(first, probability=probability)
    return tuple(sorted(by_word.values(), key=lambda each: -each.probability))
