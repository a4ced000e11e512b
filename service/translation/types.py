"""The nouns of translation, in nobody's wire format."""

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
    """A language on offer, its English name, and what it can be translated to but itself."""

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
    """A glossary's entry: wherever ``source`` is said, ``target`` is written."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class TranslateRequest:
    """Texts to translate alike. What ``decoding`` leaves unset is the model's own default."""

    texts: tuple[str, ...]
    target: str
    source: str | None = None
    """``None`` detects the language of each text."""
    model: str | None = None
    """A model on offer by name; ``None`` takes whatever leads from source to target."""
    decoding: DecodingOverrides = NO_OVERRIDES
    markup: Markup = PLAIN
    splitting: Splitting = "sentences"
    terms: tuple[Term, ...] = ()
    priority: Priority = "interactive"
    deadline: float | None = None
    """Seconds that the whole request may take."""


@dataclass(frozen=True, slots=True)
class TranslatedSentence:
    """A sentence of a text and the best hypothesis for it, without markup.

    ``source_ids`` begins with the direction's prefix and ends with ``eos``; ``target_ids`` has
    neither ``bos`` nor ``eos`` nor a prefix. ``score`` is ``NaN`` where nobody asked for scores and
    the search had no need of them.
    """

    source: str
    target: str
    source_ids: tuple[int, ...]
    target_ids: tuple[int, ...]
    score: float
    finish_reason: FinishReason
    edits: tuple[Edit, ...] = ()
    """What was changed in the text of ``target_ids`` to give ``target``."""


@dataclass(frozen=True, slots=True)
class Leg:
    """What one model did for a text: all of the way, or a part of it where there is a pivot."""

    model: str
    version: str
    pair: LanguagePair
    sentences: tuple[TranslatedSentence, ...]


@dataclass(frozen=True, slots=True)
class Timing:
    """Where the time of a request went, in seconds; of sentences, the longest."""

    preparing: float = 0.0
    """Splitting and tokenising."""
    queued: float = 0.0
    decoding: float = 0.0


@dataclass(frozen=True, slots=True)
class Translation:
    """What became of one text.

    ``hypotheses`` holds at least one text, best first; hypothesis *i* of a text is made of
    hypothesis *i* of each of its sentences, and ``scores[i]`` is their mean score. Tokens are
    counted without prefixes, ``bos`` and ``eos``, those of the target in the best hypothesis. There
    are no legs where source and target are one language and nothing had to be translated.
    """

    hypotheses: tuple[str, ...]
    scores: tuple[float, ...]
    pair: LanguagePair
    legs: tuple[Leg, ...] = ()
    detection: Detection | None = None
    """If the language of the source was not given."""
    source_tokens: int = 0
    target_tokens: int = 0
    finish_reason: FinishReason = FinishReason.COMPLETE
    timing: Timing = field(default=Timing(), compare=False)

    @property
    def text(self) -> str:
        return self.hypotheses[0]

    @property
    def alternatives(self) -> tuple[str, ...]:
        """The other hypotheses, without repetitions and without empty ones."""
        others = dict.fromkeys(self.hypotheses[1:])
        return tuple(text for text in others if text.strip() and text != self.text)

    @property
    def model(self) -> str | None:
        """The models that were asked, joined by ``+``."""
        return "+".join(leg.model for leg in self.legs) or None

    @property
    def truncated(self) -> bool:
        """Whether the translation of a sentence was cut at its longest allowed length."""
        return self.finish_reason is FinishReason.LENGTH


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of the translation of text ``text``, told as soon as it and all before it are done.

    The parts of a text make up its translation, markup and blanks included.
    """

    text: int
    target: str


def longest(timings: Sequence[Timing]) -> Timing:
    """The longest of each time."""
    return Timing(
        max((timing.preparing for timing in timings), default=0.0),
        max((timing.queued for timing in timings), default=0.0),
        max((timing.decoding for timing in timings), default=0.0),
    )
