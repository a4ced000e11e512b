"""Result types of the client. Independent of HTTP.

NumPy is imported where maps are read: programs that translate need not wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from dragoman.options import Kind

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Chosen = tuple[int, ...] | Literal["mean"]


@dataclass(frozen=True, slots=True)
class Detection:
    language: str
    confidence: float
    """Confidence in percent; 0 if the text is in none of the offered languages."""


@dataclass(frozen=True, slots=True)
class UnservedLanguage:
    """A language that the service does not offer."""

    language: str
    confidence: float
    """Confidence in percent."""
    command: str
    """The command with which the service's operator adds a model."""


@dataclass(frozen=True, slots=True)
class Timings:
    """Time spent in each stage of a request, in milliseconds."""

    preparing: float
    queued: float
    decoding: float
    total: float


@dataclass(frozen=True, slots=True)
class Translation:
    text: str
    target: str
    """The requested language."""
    source: str
    """The given or detected language."""
    detected: Detection | None
    """The detected language if ``source`` was ``auto``."""
    model: str | None
    """Two names joined by ``+`` if translated through a pivot; ``None`` if nothing was
    translated."""
    finish_reason: Literal["complete", "length"]
    """``length`` if a sentence was truncated at the maximum length."""
    truncated: bool
    """Whether ``finish_reason`` is ``length``."""
    alternatives: tuple[str, ...]
    """Best first, if requested."""
    scores: tuple[float | None, ...]
    """Scores of the translation and of each requested alternative; ``None`` without a score."""
    confidence: TranslationConfidence | None
    """Confidence of ``text``, if requested; ``None`` also if nothing was translated."""
    timings: Timings | None
    """Durations of the whole request, if requested."""
    id: str | None
    """Id of the whole request, for its attention maps; only with ``attention``."""
    number: int
    """Index of the text in the request, from 0."""
    unserved: UnservedLanguage | None = None
    """The language that the text is probably in, if the service does not offer it."""

    @property
    def score(self) -> float | None:
        """Mean of the sentences' normalised log-probabilities, if requested."""
        return self.scores[0] if self.scores else None


@dataclass(frozen=True, slots=True)
class Alternative:
    """A likely next word."""

    word: str
    probability: float
    translation: str
    """The whole translation with this word."""


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Likely next words at a place of a translation, the likeliest first."""

    translation: str
    """The translation that has the place."""
    position: int
    """Characters before the place."""
    words: tuple[Alternative, ...]
    detected: Detection | None
    """The detected language if ``source`` was ``auto``."""
    model: str


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive sentences of a streamed translation, with the blanks before each."""

    text: str
    number: int
    """Index of the text in the request, from 0."""


@dataclass(frozen=True, slots=True)
class Sentence:
    source: str
    target: str
    source_pieces: tuple[str, ...]
    target_pieces: tuple[str, ...]
    score: float | None


@dataclass(frozen=True, slots=True)
class Leg:
    """Translation of a text by one model; a pivot translation has two legs."""

    model: str
    version: str
    source: str
    target: str
    encoder_layers: int
    decoder_layers: int
    heads: int
    sentences: tuple[Sentence, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Attention:
    """Attention maps of one sentence. Each row of weights sums to 1."""

    weights: NDArray[np.float32]
    """[layers, heads, rows, columns]; a mean has one layer, or one head."""
    rows: tuple[str, ...]
    """Query pieces, one for each row."""
    columns: tuple[str, ...]
    """Key pieces, one for each column."""
    layers: Chosen
    heads: Chosen
    kind: Kind
    model: str


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    start: int
    end: int
    """Character range ``[start, end)`` in the sentence."""


@dataclass(frozen=True, slots=True)
class Link:
    source: int
    target: int
    """Indices of words, from 0."""
    weight: float
    """Share of the target word's attention to words."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """Word alignment of a source sentence and its translation."""

    source: str
    target: str
    source_words: tuple[Word, ...]
    target_words: tuple[Word, ...]
    links: tuple[Link, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate of a step of a beam search."""

    id: int
    parent: int
    """Id of the candidate that it continues; 0 at the beginning."""
    token: int
    piece: str
    log_probability: float
    """Log-probability that the token adds to ``sum``; 0 if it is forced."""
    sum: float
    score: float
    """Score of the hypothesis that ends here, with all penalties."""
    fate: Literal["kept", "pruned", "finished", "dropped"]


@dataclass(frozen=True, slots=True)
class Search:
    """Tree of the beam search of one sentence."""

    model: str
    source: tuple[str, ...]
    """Pieces of the source."""
    steps: tuple[tuple[Candidate, ...], ...]
    """The candidates of each step, best first."""
    winner: int
    """Id of the candidate that ends the translation."""
    reproduced: bool
    """Whether that is the kept translation; a GPU may round differently."""

    @property
    def path(self) -> tuple[Candidate, ...]:
        """The candidates that make the translation, in order."""
        every = {each.id: each for step in self.steps for each in step}
        path, id = list[Candidate](), self.winner
        while id:
            path.append(every[id])
            id = every[id].parent
        return tuple(reversed(path))


@dataclass(frozen=True, slots=True)
class Token:
    piece: str
    log_prob: float


@dataclass(frozen=True, slots=True)
class WordConfidence:
    """A word of a translation; ``start`` and ``end`` count the translation's characters."""

    text: str
    start: int
    end: int
    probability: float
    entropy: float | None
    """Entropy over the tokens that could begin here, in nats; ``None`` without a model's
    entropies."""


@dataclass(frozen=True, slots=True)
class Confidence:
    """Probabilities of the words of a translation, in order."""

    words: tuple[WordConfidence, ...]
    mean: float | None
    """Geometric mean of the words; ``None`` without words."""
    lowest: float | None


@dataclass(frozen=True, slots=True)
class SentenceConfidence:
    """Summary of a sentence; ``start`` and ``end`` count the translation's characters."""

    start: int
    end: int
    mean: float | None
    """Geometric mean of its words; ``None`` without words."""
    lowest: float | None


@dataclass(frozen=True, slots=True)
class TranslationConfidence(Confidence):
    sentences: tuple[SentenceConfidence, ...]


@dataclass(frozen=True, slots=True)
class Score:
    """Log-probability of a translation under a model."""

    log_prob: float
    """Sum over all tokens, end of sentence included."""
    score: float
    """``log_prob`` per token."""
    perplexity: float
    tokens: tuple[Token, ...]
    confidence: Confidence | None = None
    """Only if requested."""


@dataclass(frozen=True, slots=True)
class Language:
    code: str
    name: str
    targets: tuple[str, ...]
    """Languages it can be translated to."""


@dataclass(frozen=True, slots=True)
class Quality:
    """A score of a model on a test set."""

    metric: str
    value: float
    test_set: str
    signature: str


@dataclass(frozen=True, slots=True)
class Model:
    name: str
    version: str
    directions: tuple[tuple[str, str], ...]
    """Pairs of source and target."""
    precision: str
    scores: tuple[Quality, ...]


@dataclass(frozen=True, slots=True)
class Readiness:
    ready: bool
    reasons: tuple[str, ...]
    """Why the service is not ready."""
    models: tuple[str, ...]
    failed: dict[str, str]
    """Bundles that could not be loaded, and why."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of the caller in the current month."""

    characters: int
    limit: int | None
    """Characters; ``None`` is unlimited."""
    documents: int
    begins: datetime
    ends: datetime
