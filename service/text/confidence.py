"""Probability and entropy of each word of a given translation, from those of its tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from service.text.alignment import Side, Span, token_shares
from service.text.words import words


@dataclass(frozen=True, slots=True)
class WordConfidence:
    """A word of a text; ``start`` and ``end`` count the text's characters."""

    text: str
    start: int
    end: int
    probability: float
    """Product of the probabilities of its tokens, given the source and the tokens before them."""
    entropy: float | None = None
    """Entropy of the distribution of its first token, in nats; ``None`` if the model has no
    entropies."""


@dataclass(frozen=True, slots=True)
class Confidence:
    """The words of a text or of its sentence, in order, and a summary: ``None`` without words.

    ``start`` and ``end`` count the text's characters.
    """

    words: tuple[WordConfidence, ...]
    start: int
    end: int

    def moved(self, by: int) -> Confidence:
        """The same behind so many more characters."""
        words = (replace(each, start=each.start + by, end=each.end + by) for each in self.words)
        return Confidence(tuple(words), self.start + by, self.end + by)

    @property
    def mean(self) -> float | None:
        """Geometric mean of the words' probabilities."""
        if not self.words:
            return None
        if self.lowest == 0:
            return 0.0
        return math.exp(
            math.fsum(math.log(word.probability) for word in self.words) / len(self.words)
        )

    @property
    def lowest(self) -> float | None:
        return min((word.probability for word in self.words), default=None)


def joined(sentences: Sequence[Confidence]) -> Confidence:
    """The confidence of a text from that of its sentences."""
    return Confidence(
        tuple(word for sentence in sentences for word in sentence.words),
        min((sentence.start for sentence in sentences), default=0),
        max((sentence.end for sentence in sentences), default=0),
    )


def confidence_of(
    text: str,
    spans: Sequence[Span],
    log_probs: Sequence[float],
    entropies: Sequence[float] | None = None,
) -> Confidence:
    """The confidence of ``text``, of whose token number n all sequences have element n.

    A token that lies in several words counts in each of them. A word that no token lies in, because
    the tokenizer drops its characters, is left out.
    """
    found = words(text)
    in_word_NW = token_shares(Side(found, tuple(spans))) > 0
    log_probs_W = np.asarray(log_probs, np.float64) @ in_word_NW
    # Rounding can make a log-probability positive, and an entropy negative.
    probabilities = np.exp(np.minimum(log_probs_W, 0.0)).tolist()
    if entropies is None or not in_word_NW.size:
        entropies_W = [None] * len(found)
    else:
        first_tokens_W = in_word_NW.argmax(0)
        entropies_W = np.maximum(np.asarray(entropies, np.float64), 0.0)[first_tokens_W].tolist()
    return Confidence(
        tuple(
            WordConfidence(text[start:end], start, end, probability, entropy)
            for (start, end), probability, entropy, in_word_N in zip(
                found, probabilities, entropies_W, in_word_NW.T, strict=True
            )
            if in_word_N.any()
        ),
        0,
        len(text),
    )
