"""Request, result and language types of translation, independent of any wire format."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, zip_longest
from typing import TypeVar

from service.catalogue.permission import Permission
from service.engine.types import DecodingOptions, Durations, FinishReason
from service.text.confidence import Confidence
from service.text.markup.types import PLAIN, Markup
from service.text.memory.memory_index import Memory, MemoryMatch
from service.text.segmentation import Splitting
from service.text.text_edits import Edit
from service.text.types import Detection, LanguagePair, Term
from service.translation.decoding import NO_OVERRIDES, DecodingOverrides

T = TypeVar("T")


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
    memory: Memory | None = None
    """Applies to texts of its language pair."""
    prefix: str = ""
    """The beginning of the translation of the only text, kept character by character."""
    confidence: bool = False
    """Whether the confidence of the translations is wanted; only without markup and terms."""
    keep_capitals: bool = False
    """Whether a sentence that begins with a capital letter also begins so in the translation."""
    permission: Permission | None = None
    """The languages and models that the caller may use; ``None`` is all."""
    sample: str | None = None
    """The text by which a canary is chosen, for all texts; ``None`` is the first of them."""

    @property
    def chooses_by(self) -> str:
        return self.texts[0] if self.sample is None else self.sample


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations of a request in seconds; the longest over its sentences."""

    preparing: float = 0.0
    """Splitting and tokenising."""
    queued: float = 0.0
    decoding: float = 0.0


@dataclass(frozen=True, slots=True)
class TranslatedSentence:
    """A sentence of a text, its hypotheses, and what the search found out about them.

    ``source_ids`` begins with the direction's prefix and ends with ``eos``; ``target_ids`` has
    neither ``bos`` nor ``eos`` nor a prefix.
    """

    source: str
    target: str
    """The best hypothesis, without markup."""
    source_ids: tuple[int, ...]
    target_ids: tuple[int, ...]
    hypotheses: tuple[str, ...]
    """Hypotheses with the markup of the source, best first."""
    scores: tuple[float, ...]
    """Score of each hypothesis; ``NaN`` if not requested and not needed by the search."""
    finish_reason: FinishReason
    options: DecodingOptions = field(compare=False)
    """Options of the search that found ``target_ids``."""
    match: MemoryMatch | None = None
    """The most similar unit of the request's memory. An adapted one is the first hypothesis."""
    edits: tuple[Edit, ...] = ()
    """The edits from the decoded text of ``target_ids`` to ``target``."""
    durations: Durations = field(default=Durations(), compare=False)

    @property
    def score(self) -> float:
        """Score of the best hypothesis."""
        return self.scores[0]


@dataclass(frozen=True)
class Leg:
    """A text's translation by one model: one leg per text, or two through a pivot.

    Everything but the fields is derived from the sentences, once.
    """

    model: str
    version: str
    pair: LanguagePair
    separators: tuple[str, ...]
    """The raw text around the sentences, one more than sentences."""
    sentences: tuple[TranslatedSentence, ...]
    source_tokens: int
    """Source tokens without prefixes and ``eos``."""
    exact: tuple[MemoryMatch, ...] = ()
    """Units of the request's memory whose translation is a part of ``separators``."""

    @cached_property
    def hypotheses(self) -> tuple[str, ...]:
        """See ``Translation.hypotheses``."""
        return tuple(
            _joined(self.separators, [_of_rank(each.hypotheses, rank) for each in self.sentences])
            for rank in range(self._ranks)
        )

    @cached_property
    def scores(self) -> tuple[float, ...]:
        """See ``Translation.scores``."""
        if not self.sentences:
            return (math.nan,)
        return tuple(
            math.fsum(_of_rank(each.scores, rank) for each in self.sentences) / len(self.sentences)
            for rank in range(self._ranks)
        )

    @property
    def target_tokens(self) -> int:
        return sum(len(each.target_ids) for each in self.sentences)

    @cached_property
    def finish_reason(self) -> FinishReason:
        """``LENGTH`` if that of any sentence is."""
        cut = any(each.finish_reason is FinishReason.LENGTH for each in self.sentences)
        return FinishReason.LENGTH if cut else FinishReason.COMPLETE

    @property
    def timing(self) -> Timing:
        return longest(
            [Timing(0.0, d.queued, d.decoding) for d in (s.durations for s in self.sentences)]
        )

    @property
    def _ranks(self) -> int:
        return max((len(each.hypotheses) for each in self.sentences), default=1)


@dataclass(frozen=True, slots=True)
class Translation:
    """The translation of one text: its legs, and what belongs to no single leg.

    Without legs, source and target are the same language, and the text is ``unchanged``.
    """

    pair: LanguagePair
    legs: tuple[Leg, ...] = ()
    unchanged: str = ""
    detection: Detection | None = None
    """Set if the request did not name the source language."""
    preparing: float = field(default=0.0, compare=False)
    """Seconds of splitting and tokenising, over all legs."""
    confidences: tuple[Confidence, ...] | None = None
    """Confidences of the sentences of the last leg, if requested; ``None`` also if
    ``unchanged``."""

    @property
    def hypotheses(self) -> tuple[str, ...]:
        """At least one text, best first. Hypothesis *i* of a text is made of hypothesis *i* of each
        of its sentences, or of the sentence's last."""
        return self.legs[-1].hypotheses if self.legs else (self.unchanged,)

    @property
    def scores(self) -> tuple[float, ...]:
        """Mean score of the sentences, for each hypothesis."""
        return self.legs[-1].scores if self.legs else (math.nan,)

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
    def sentence_count(self) -> int:
        """Sentences of the text that a model has translated."""
        return sum(len(leg.sentences) for leg in self.legs[:1])

    @property
    def source_tokens(self) -> int:
        """Tokens of the text, without prefixes and ``eos``."""
        return self.legs[0].source_tokens if self.legs else 0

    @property
    def target_tokens(self) -> int:
        """Tokens of the best hypothesis, without prefixes and ``eos``."""
        return self.legs[-1].target_tokens if self.legs else 0

    @property
    def finish_reason(self) -> FinishReason:
        """``LENGTH`` if that of any leg is."""
        reasons = {leg.finish_reason for leg in self.legs}
        return FinishReason.LENGTH if FinishReason.LENGTH in reasons else FinishReason.COMPLETE

    @property
    def matches(self) -> tuple[MemoryMatch, ...]:
        """The units of the request's memory that are like the text: exact ones first."""
        if not self.legs:
            return ()
        found = (sentence.match for sentence in self.legs[-1].sentences)
        return (*self.legs[-1].exact, *(match for match in found if match is not None))

    @property
    def undetected(self) -> bool:
        """Whether the text was left as it is, because its language could not be detected."""
        return self.detection is not None and not self.detection.found

    @property
    def truncated(self) -> bool:
        """Whether a sentence's translation reached its maximum length."""
        return self.finish_reason is FinishReason.LENGTH

    @property
    def timing(self) -> Timing:
        """The durations of the legs, added."""
        timings = [leg.timing for leg in self.legs]
        return Timing(
            self.preparing, sum(t.queued for t in timings), sum(t.decoding for t in timings)
        )


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of the translation of text ``text``, delivered once it and all before it are done.

    The concatenated parts of a text are its translation, markup and blanks included.
    """

    text: int
    target: str
    share: float = field(default=0.0, compare=False)
    """The share of the text's source that it translates. Those of all parts add up to 1."""


def longest(timings: Sequence[Timing]) -> Timing:
    """The maximum of each duration."""
    if len(timings) == 1:
        return timings[0]
    return Timing(
        max((timing.preparing for timing in timings), default=0.0),
        max((timing.queued for timing in timings), default=0.0),
        max((timing.decoding for timing in timings), default=0.0),
    )


def _of_rank(values: tuple[T, ...], rank: int) -> T:
    """The value of this rank, or the last."""
    return values[min(rank, len(values) - 1)]


def _joined(separators: Sequence[str], sentences: Sequence[str]) -> str:
    return "".join(chain.from_iterable(zip_longest(separators, sentences, fillvalue="")))
