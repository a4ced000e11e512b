"""What the service answers, as values. Knows no HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dragoman.options import Kind

Chosen = tuple[int, ...] | Literal["mean"]


@dataclass(frozen=True, slots=True)
class Detection:
    language: str
    confidence: float
    """In percent; 0 for a text in no language on offer."""


@dataclass(frozen=True, slots=True)
class Timings:
    """Where the time of a request went, in milliseconds."""

    preparing: float
    queued: float
    decoding: float
    total: float


@dataclass(frozen=True, slots=True)
class Translation:
    text: str
    target: str
    """Language that was asked for."""
    source: str
    """Language that was said, or else detected."""
    detected: Detection | None
    """If ``source`` was ``auto``."""
    model: str | None
    """Two names joined by ``+`` if two models led through a third language; ``None`` where nothing
    had to be translated."""
    finish_reason: Literal["complete", "length"]
    """``length`` if a sentence was cut at its longest allowed length."""
    truncated: bool
    """Whether it was."""
    alternatives: tuple[str, ...]
    """Best first, if asked for."""
    scores: tuple[float | None, ...]
    """If asked for: of the translation, then of each alternative; ``None`` where there is none."""
    timings: Timings | None
    """Of the whole request, if asked for."""
    id: str | None
    """Of the whole request, if asked for with ``attention``."""
    number: int
    """Which text of the request, from 0."""

    @property
    def score(self) -> float | None:
        """Mean of the sentences' normalised log-probabilities, if asked for."""
        return self.scores[0] if self.scores else None


@dataclass(frozen=True, slots=True)
class Part:
    """Some sentences of a translation, with the blanks between them and what came before."""

    text: str
    number: int
    """Of which text of the request, from 0."""


@dataclass(frozen=True, slots=True)
class Sentence:
    source: str
    target: str
    source_pieces: tuple[str, ...]
    target_pieces: tuple[str, ...]
    score: float | None


@dataclass(frozen=True, slots=True)
class Leg:
    """What one model did for a text; a way through a third language has two."""

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
    """Maps of one sentence. Each row of weights sums to 1."""

    weights: NDArray[np.float32]
    """[layers, heads, rows, columns]; a mean has one layer, or one head."""
    rows: tuple[str, ...]
    """Who looks: a piece for each row."""
    columns: tuple[str, ...]
    """What is looked at: a piece for each column."""
    layers: Chosen
    heads: Chosen
    kind: Kind
    model: str


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    start: int
    end: int
    """Characters of the sentence before its first, and up to its last."""


@dataclass(frozen=True, slots=True)
class Link:
    source: int
    target: int
    """Numbers of words, from 0."""
    weight: float
    """Share of the target word's attention to words."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """Which words of a sentence became which."""

    source: str
    target: str
    source_words: tuple[Word, ...]
    target_words: tuple[Word, ...]
    links: tuple[Link, ...]


@dataclass(frozen=True, slots=True)
class Token:
    piece: str
    log_prob: float


@dataclass(frozen=True, slots=True)
class Score:
    """How likely a model finds a translation."""

    log_prob: float
    """Of the whole, its end counted."""
    score: float
    """The same per token."""
    perplexity: float
    tokens: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Language:
    code: str
    name: str
    targets: tuple[str, ...]
    """What it can be translated to."""


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
    """Why it is not."""
    models: tuple[str, ...]
    failed: dict[str, str]
    """Bundles that could not be loaded, and why."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What the caller has used in this month."""

    characters: int
    limit: int | None
    """Of characters; ``None`` if there is none."""
    documents: int
    begins: datetime
    ends: datetime
