"""The nouns of the engine."""

from __future__ import annotations

import enum
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DecodingOptions:
    """How one sentence is searched. Names and meanings are CTranslate2's.

    A hypothesis of ``T`` tokens (``eos`` counted) scores ``sum of log_probs / T**length_penalty``.
    A search ends when ``beam_size`` hypotheses have ended, or at ``max_decoding_length`` tokens
    (``eos`` counted), where the likeliest ``beam_size`` prefixes count as hypotheses as they are.
    With ``length_penalty`` 0 it ends instead once the likeliest candidate has ended, which nothing
    can overtake, and ``num_hypotheses`` are there.
    ``beam_size`` 1 is greedy search.

    A ``max_decoding_length`` beyond what the model can write is reduced to that.
    """

    beam_size: int = 4
    num_hypotheses: int = 1
    length_penalty: float = 1.0
    max_decoding_length: int = 256

    def __post_init__(self) -> None:
        if self.beam_size < 1:
            raise ValueError("beam_size must be at least 1")
        if not 1 <= self.num_hypotheses <= self.beam_size:
            raise ValueError("num_hypotheses must be between 1 and beam_size")
        if not -10 <= self.length_penalty <= 10:
            raise ValueError("length_penalty must be between -10 and 10")
        if self.max_decoding_length < 1:
            raise ValueError("max_decoding_length must be at least 1")


class FinishReason(enum.Enum):
    """Why the best hypothesis is as long as it is."""

    COMPLETE = "complete"
    """It ended by itself."""
    LENGTH = "length"
    """It was cut at ``max_decoding_length``."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    token_ids: tuple[int, ...]
    """Without ``bos`` and ``eos``."""
    score: float
    """Normalised by length; comparable among hypotheses of one sentence."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """What becomes of a sentence: its hypotheses, best first."""

    hypotheses: tuple[Hypothesis, ...]
    finish_reason: FinishReason
