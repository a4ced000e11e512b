"""Scores of given translations, from the graph that scores."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

from service.inspection.attention import TokenPair
from service.text.confidence import Confidence
from service.translation.forced_pass import confidence, forced_pass_of, target_spans_of

_LARGEST_EXPONENT = 700.0
"""Bound of the argument of ``math.exp``, below its overflow."""


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
    found = None
    if target_text is not None:
        found = await asyncio.to_thread(
            lambda: confidence(
                tokens.directed,
                forced_pass_of(model, maps),
                tokens.target_ids,
                target_text,
                target_spans_of(model.tokenizers.target, target_text, tokens.target_ids),
            )
        )
    return Score(tuple(map(ScoredToken, pieces, log_probs)), found)
