"""Scores of given translations, and the confidence of translations, from the graph that scores."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from service.runtime.backend import AttentionMaps
from service.translation.alignment import Span
from service.translation.attention import TokenPair, target_spans_of
from service.translation.confidence import Confidence, confidence_of
from service.translation.edits import Edit, moved
from service.translation.loaded_model import DirectedModel
from service.translation.types import Leg, TranslatedSentence

_LARGEST_EXPONENT = 700.0
"""Above it, ``math.exp`` overflows."""


@dataclass(frozen=True, slots=True)
class ScoredToken:
    piece: str
    log_prob: float


@dataclass(frozen=True, slots=True)
class Score:
    """Log-probabilities of a translation's tokens.

    The last token is ``eos``. The first are the direction's target prefix, with log-probability 0.
    """

    tokens: tuple[ScoredToken, ...]
    confidence: Confidence | None = None
    """Only if requested."""

    @property
    def log_prob(self) -> float:
        return math.fsum(token.log_prob for token in self.tokens)

    @property
    def score(self) -> float:
        """Log-probability per token: the score of a search with ``length_penalty`` 1."""
        return self.log_prob / len(self.tokens)

    @property
    def perplexity(self) -> float:
        return math.exp(min(-self.score, _LARGEST_EXPONENT))


async def score(tokens: TokenPair, target_text: str | None) -> Score:
    """The score of a pair, with the confidence of ``target_text`` unless it is ``None``.

    Raises the errors of ``AttentionReader.read``.
    """
    model, written = tokens.directed.model, tokens.written
    maps = await tokens.read()
    pieces = model.tokenizers.target.pieces((*written, model.manifest.special_ids.eos))
    # The forced target prefix has score 0, as in a search.
    free = len(tokens.directed.direction.target_prefix)
    log_probs = [0.0] * free + maps.log_probs_T[free:].tolist()
    confidence = None
    if target_text is not None:
        confidence = await asyncio.to_thread(
            lambda: _confidence(
                tokens,
                maps,
                target_text,
                target_spans_of(model.tokenizers.target, target_text, tokens.target_ids),
            )
        )
    return Score(tuple(map(ScoredToken, pieces, log_probs)), confidence)


async def confidences(directed: DirectedModel, leg: Leg, caller: str) -> tuple[Confidence, ...]:
    """The confidence of each sentence of a leg, which ``directed`` has translated without markup.

    Words have their place in the best hypothesis of the whole text. Sentences are read one at a
    time, so that a long text does not hold up short ones. Raises the errors of
    ``AttentionReader.read``.
    """
    found = []
    first = 0
    for separator, sentence in zip(leg.separators, leg.sentences, strict=False):
        first += len(separator)
        tokens = TokenPair(directed, sentence.source_ids, sentence.target_ids, caller)
        maps = await tokens.read()
        found.append(await asyncio.to_thread(_of_sentence, tokens, maps, sentence, first))
        first += len(sentence.hypotheses[0])
    return tuple(found)


def _of_sentence(
    tokens: TokenPair, maps: AttentionMaps, sentence: TranslatedSentence, first: int
) -> Confidence:
    decoded_spans = tokens.directed.model.tokenizers.target.decoded_spans(sentence.target_ids)
    text = sentence.hypotheses[0]
    spans = moved(decoded_spans, sentence.edits)
    if text != sentence.target:
        # A given beginning has its own blanks.
        edits = [_difference(sentence.target, text)]
        spans = tuple(span and moved([span], edits)[0] for span in spans)
    return _confidence(tokens, maps, text, spans, first)


def _difference(text: str, other: str) -> Edit:
    """The shortest edit that turns one text into the other."""
    start = _common(text, other)
    same = _common(text[start:][::-1], other[start:][::-1])
    return Edit(start, len(text) - same, other[start : len(other) - same])


def _common(text: str, other: str) -> int:
    """The number of characters with which both texts begin."""
    return sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(text, other, strict=False))
    )


def _confidence(
    tokens: TokenPair,
    maps: AttentionMaps,
    text: str,
    spans: Sequence[Span | None],
    first: int = 0,
) -> Confidence:
    """The confidence of ``text``, whose tokens have ``spans``; it lacks those without one."""
    free = len(tokens.directed.direction.target_prefix)
    # A truncated translation may have one token more than the graph reads.
    read = range(min(len(spans), len(tokens.written) - free))
    kept = [(token + free, span) for token in read if (span := spans[token]) is not None]
    at = [token for token, _ in kept]
    return confidence_of(
        text,
        [span for _, span in kept],
        maps.log_probs_T[at].tolist(),
        None if maps.entropies_T is None else maps.entropies_T[at].tolist(),
        first,
    )
