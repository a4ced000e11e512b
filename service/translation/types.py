"""Request, result and language types of translation, independent of any wire format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from service.engine.types import FinishReason, Priority
from service.translation.decoding import NO_OVERRIDES, DecodingOverrides
from service.translation.edits import Edit
from service.translation.markup.types import PLAIN, Markup
from service.translation.segmentation import Splitting


@dataclass(frozen=True, slots=True, order=True)
class LanguagePair:
    """Two canonical language codes, see ``models.bundle.languages``."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"


@dataclass(frozen=True, slots=True)
class Language:
    """A language on offer, its English name, and the other languages it is translated to."""

    code: str
    name: str
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Detection:
    """A guess at a text's language; ``confidence`` is between 0 and 1."""

    language: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Term:
    """A glossary entry: ``target`` translates each occurrence of ``source``."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class TranslateRequest:
    """Texts to translate with the same options."""

    texts: tuple[str, ...]
    target: str
    source: str | None = None
    """``None`` detects the language of each text."""
    model: str | None = None
    """Name of a model on offer; ``None`` takes any model or pivot route for the pair."""
    decoding: DecodingOverrides = NO_OVERRIDES
    markup: Markup = PLAIN
    splitting: Splitting = "sentences"
    terms: tuple[Term, ...] = ()
    priority: Priority = "interactive"
    deadline: float | None = None
    """Time limit of the whole request, in seconds."""


@dataclass(frozen=True, slots=True)
class TranslatedSentence:
    """A sentence of a text and the best hypothesis for it, without markup.

    ``source_ids`` begins with the direction's prefix and ends with ``eos``; ``target_ids`` has
    neither ``bos`` nor ``eos`` nor a prefix. ``score`` is ``NaN`` if scores were not requested and
    the search did not need them.
    """

    source: str
    target: str
    source_ids: tuple[int, ...]
    target_ids: tuple[int, ...]
    score: float
    finish_reason: FinishReason
    edits: tuple[Edit, ...] = ()
    """The edits from the decoded text of ``target_ids`` to ``target``."""


@dataclass(frozen=True, slots=True)
class Leg:
    """A text's translation by one model: one leg per text, or two through a pivot."""

    model: str
    version: str
    pair: LanguagePair
    sentences: tuple[TranslatedSentence, ...]


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations of a request in seconds; the longest over its sentences."""

    preparing: float = 0.0
    """Splitting and tokenising."""
    queued: float = 0.0
    decoding: float = 0.0


@dataclass(frozen=True, slots=True)
class Translation:
    """The translation of one text.

    ``hypotheses`` holds at least one text, best first; hypothesis *i* of a text is made of
    hypothesis *i* of each of its sentences, and ``scores[i]`` is their mean score. Token
    counts exclude prefixes, ``bos`` and ``eos``; target tokens are those of the best hypothesis.
    ``legs`` is empty if source and target are the same language.
    """

    hypotheses: tuple[str, ...]
    scores: tuple[float, ...]
    pair: LanguagePair
    legs: tuple[Leg, ...] = ()
    detection: Detection | None = None
    """Set if the request did not name the source language."""
    source_tokens: int = 0
    target_tokens: int = 0
    finish_reason: FinishReason = FinishReason.COMPLETE
    timing: Timing = field(default=Timing(), compare=False)

    @property
    def text(self) -> str:
        return self.hypotheses[0]

    @property
    def alternatives(self) -> tuple[str, ...]:
        """All hypotheses after the best, without duplicates and empty ones."""
        others = dict.fromkeys(self.hypotheses[1:])
        return tuple(text for text in others if text.strip() and text != self.text)

    @property
    def model(self) -> str | None:
        """The names of the models used, joined by ``+``."""
        return "+".join(leg.model for leg in self.legs) or None

    @property
    def truncated(self) -> bool:
        """Whether a sentence's translation reached its maximum length."""
        return self.finish_reason is FinishReason.LENGTH


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of the translation of text ``text``, delivered once it and all before it are done.

    The concatenated parts of a text are its translation, markup and blanks included.
    """

    text: int
    target: str


def longest(timings: Sequence[Timing]) -> Timing:
    """The maximum of each duration."""
    return Timing(
        max((timing.preparing for timing in timings), default=0.0),
        max((timing.queued for timing in timings), default=0.0),
        max((timing.decoding for timing in timings), default=0.0),
    )
