"""Resolves a request's decoding overrides against a bundle's defaults and limits.

Options that a request leaves unset take the bundle's default. The beam is widened to the number of
hypotheses, unless the request sets the beam size.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from models.bundle.manifest import (
    DecodingDefaults,
    Direction,
    LengthNormalisation,
    SentenceLimits,
)
from service.engine.types import DecodingOptions, row_cost
from service.translation.errors import InvalidOption

T = TypeVar("T")
Encode = Callable[[str], tuple[int, ...]]

# Translations rarely have more than twice the tokens of their source; three times and a
# little more leaves room for short sentences and stops a repetition before it costs much.
_TOKENS_PER_SOURCE_TOKEN = 3
_TOKENS_ALWAYS = 20


PREFIX_CHARACTERS = 1_000
"""Characters of a forced prefix, at most; so few are encoded in less than a millisecond."""
SUPPRESSED_TEXTS = 100
SUPPRESSED_CHARACTERS = 1_000
"""Suppressed texts of a request, at most, and their characters together."""

_MOST_TOKENS = 10_000
"""More than any network reads or writes."""
_MOST_CHOICES = 1_000_000
"""More than any vocabulary holds."""

_LARGEST_SEED = 2**53
"""Largest seed; JSON parsers lose the precision of larger integers."""


def _no_boolean(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("should be a number")
    return value


def _whole(value: Any) -> Any:
    # JSON does not distinguish 2.0 from 2.
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return _no_boolean(value)


WHOLE = BeforeValidator(_whole)
"""Placed after ``int`` and its bounds; before them, pydantic would omit the bounds from OpenAPI."""
DECIMAL = BeforeValidator(_no_boolean)
_Natural = Annotated[int, Field(ge=0, le=_MOST_TOKENS), WHOLE]
_Positive = Annotated[int, Field(ge=1, le=_MOST_TOKENS), WHOLE]
_UpTo10 = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False), DECIMAL]
_Ratio = Annotated[float, Field(gt=0, le=100, allow_inf_nan=False), DECIMAL]
_Penalty = Annotated[float, Field(ge=0.01, le=100, allow_inf_nan=False), DECIMAL]
_Suppressed = Annotated[str, Field(min_length=1, max_length=SUPPRESSED_CHARACTERS)]


def _check_together(texts: list[str]) -> list[str]:
    characters = sum(map(len, texts))
    if characters > SUPPRESSED_CHARACTERS:
        raise ValueError(
            f"should have at most {SUPPRESSED_CHARACTERS} characters together, not {characters}"
        )
    return texts


@dataclass(frozen=True, slots=True)
class Constraints:
    """Token ids of a request's forced prefix and suppressed sequences, encoded once per request."""

    target_prefix: tuple[int, ...] = ()
    suppress_sequences: tuple[tuple[int, ...], ...] = ()


UNCONSTRAINED = Constraints()


class DecodingOverrides(BaseModel):
    """A request's decoding options; ``None`` is the bundle's default.

    The only declaration of their names, ranges and descriptions: fields of the APIs and OpenAPI
    follow from it. Those of ``DecodingOptions`` of the same name are passed on to the engine.
    Prefixes and suppressed sequences are text, and lengths may be relative to the source's.
    Raises pydantic's ``ValidationError``, a ``ValueError``, for values out of range.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    beam_size: _Positive | None = Field(default=None, description="Width of the beam search.")
    patience: Annotated[float, Field(ge=0.5, le=10, allow_inf_nan=False), DECIMAL] | None = Field(
        default=None,
        description="The search ends when this times `beam_size` hypotheses have ended.",
    )
    num_hypotheses: _Positive | None = Field(
        default=None, description="Translations to return; one more than `alternatives`."
    )
    length_penalty: Annotated[float, Field(ge=-10, le=10, allow_inf_nan=False), DECIMAL] | None = (
        Field(default=None, description="Scores are divided by the length to this power.")
    )
    length_normalisation: LengthNormalisation | None = Field(
        default=None,
        description="`power` divides by T^length_penalty, `gnmt` by ((5 + T) / 6)^length_penalty.",
    )
    coverage_penalty: _UpTo10 | None = Field(
        default=None, description="Punishes translations that have not looked at all of the source."
    )
    repetition_penalty: _Penalty | None = Field(
        default=None, description="Above 1, repetitions get unlikelier."
    )
    no_repeat_ngram_size: _Natural | None = Field(
        default=None, description="No sequence of so many tokens is written twice; 0 allows it."
    )
    disable_unk: bool | None = Field(default=None, description="Never write the unknown token.")
    suppress_sequences: (
        Annotated[
            list[_Suppressed], Field(max_length=SUPPRESSED_TEXTS), AfterValidator(_check_together)
        ]
        | None
    ) = Field(default=None, description="Texts that are never written (JSON only).")
    target_prefix: Annotated[str, Field(max_length=PREFIX_CHARACTERS)] | None = Field(
        default=None, description="What each translation begins with."
    )
    prefix_bias_beta: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False), DECIMAL] | None = (
        Field(
            default=None,
            description="Above 0, `target_prefix` is favoured by this much rather than forced.",
        )
    )
    min_decoding_length: _Natural | None = Field(
        default=None, description="Shortest translation of a sentence, in tokens; 1 if not given."
    )
    max_decoding_length: _Positive | None = Field(
        default=None,
        description="Longest translation of a sentence, in tokens; three times the tokens of the "
        "source and 20 more where it is not given.",
    )
    min_length_ratio: _Ratio | None = Field(
        default=None, description="Target tokens per source token, at least."
    )
    max_length_ratio: _Ratio | None = Field(
        default=None, description="Target tokens per source token, at most."
    )
    sampling_topk: Annotated[int, Field(ge=0, le=_MOST_CHOICES), WHOLE] | None = Field(
        default=None,
        description="1 searches; more draws each token from so many likeliest, at most from 256; "
        "0 means 256.",
    )
    sampling_topp: Annotated[float, Field(gt=0, le=1), DECIMAL] | None = Field(
        default=None, description="Draws from the likeliest tokens that make up this much."
    )
    sampling_temperature: Annotated[float, Field(ge=0.001, le=100), DECIMAL] | None = Field(
        default=None, description="Above 1, draws are more even; below, more certain."
    )
    seed: Annotated[int, Field(ge=0, le=_LARGEST_SEED), WHOLE] | None = Field(
        default=None, description="Draws with the same seed are the same; without one they differ."
    )
    keep_figures: bool | None = Field(
        default=None,
        description="Prefer, among the finished hypotheses of the beam, the one that keeps the "
        "figures and signs of the source. Ignored if scores or several translations are wanted.",
    )
    return_alternatives: bool | None = Field(
        default=None,
        description="Continue each of the `num_hypotheses` likeliest tokens after the beginning of "
        "the translation.",
    )
    min_alternative_expansion_prob: (
        Annotated[float, Field(ge=0, le=1, allow_inf_nan=False), DECIMAL] | None
    ) = Field(default=None, description="Least probability of these tokens; 0 if not given.")
    return_scores: bool | None = Field(
        default=None, description="Whether to say how likely the translations are, in `scores`."
    )

    def constraints(self, encode: Encode) -> Constraints:
        """The constraints as token ids. ``encode`` converts text to token ids.

        Raises ``InvalidOption`` if they exclude one another.
        """
        if self.return_alternatives and self.prefix_bias_beta:
            raise InvalidOption("return_alternatives excludes prefix_bias_beta")
        return Constraints(
            encode(self.target_prefix) if self.target_prefix else (),
            tuple(encode(text) for text in self.suppress_sequences or ()),
        )

    def resolve(
        self,
        defaults: DecodingDefaults,
        limits: SentenceLimits,
        source_tokens: int,
        constraints: Constraints = UNCONSTRAINED,
        sentence: int = 0,
        direction: Direction | None = None,
        *,
        has_figures: bool = False,
    ) -> DecodingOptions:
        """The options for a sentence of ``source_tokens`` tokens, prefix and ``eos`` included.

        ``constraints`` are those of the request. ``sentence`` is the sentence's number in its text.
        ``direction`` has the decoder's forced prefix. ``has_figures``: whether the source has
        figures or signs. By default a translation has at most ``3 * source_tokens + 20`` tokens,
        prefix and ``eos`` included, and never more than the network can write; one that reaches
        the limit finishes with ``FinishReason.LENGTH``. Lengths in a request do not count prefixes.
        Raises ``InvalidOption`` for invalid values.
        """
        forced = direction.target_prefix if direction is not None else ()
        unread = len(direction.source_prefix) if direction is not None else 0
        longest, shortest = self._lengths(limits, source_tokens, unread, len(forced))
        try:
            return _options(
                **{
                    "length_penalty": defaults.length_penalty,
                    "length_normalisation": defaults.length_normalisation,
                    "return_scores": False,
                    **self._passed_on,
                    **({"num_hypotheses": 1} if self.return_alternatives else {}),
                },
                beam_size=self._beam_size(defaults),
                suppress_sequences=constraints.suppress_sequences,
                target_prefix=(*forced, *(() if sentence else constraints.target_prefix)),
                forced_prefix_length=len(forced),
                min_decoding_length=shortest,
                max_decoding_length=longest,
                all_finished=has_figures and self._chooses_by_figures(defaults, direction),
                seed=self._seed(sentence),
            )
        except ValueError as error:
            raise InvalidOption(str(error)) from error

    def work(self, defaults: DecodingDefaults, limits: SentenceLimits, source_tokens: int) -> int:
        """The work in source tokens of decoding with the bundle's defaults.

        At least ``source_tokens``. More rows make every step longer, and so does sampling from
        many candidates. A minimum length requires more steps.
        """
        hypotheses = 1 if self.return_alternatives else _or(self.num_hypotheses, 1)
        rows = hypotheses if self.samples else max(self._beam_size(defaults), hypotheses)
        cost = rows * row_cost(_or(self.sampling_topk, 1))
        _, shortest = self._lengths(limits, source_tokens)
        steps = max(source_tokens, min(shortest, limits.target_length))
        return math.ceil(steps * max(1.0, cost / defaults.beam_size))

    @property
    def token_alternatives(self) -> int:
        """The number of alternatives at a token; 0 without ``return_alternatives``."""
        return _or(self.num_hypotheses, 1) if self.return_alternatives else 0

    @property
    def _passed_on(self) -> dict[str, Any]:
        """The options of the request that the engine takes as they are."""
        given = {name: getattr(self, name) for name in _PASSED_ON}
        return {name: value for name, value in given.items() if value is not None}

    def _chooses_by_figures(self, defaults: DecodingDefaults, direction: Direction | None) -> bool:
        """Whether one hypothesis is requested, without a score, and the search finds several."""
        keeps = _or(self.keep_figures, _or(defaults.keep_figures, not _private_use(direction)))
        alone = _or(self.num_hypotheses, 1) == 1 and not self.return_scores
        alone = alone and not self.return_alternatives
        return keeps and alone and self._beam_size(defaults) > 1

    def _seed(self, sentence: int) -> int:
        """A seed for each sentence of a text, so that they draw different numbers.

        0 unless sampling, because equal options are one entry in the result cache.
        """
        if not self.samples:
            return 0
        seed = secrets.randbits(64) if self.seed is None else self.seed
        return (seed + sentence) % 2**64 if seed >= 0 else seed

    @property
    def samples(self) -> bool:
        """Whether tokens are sampled: the options of each sentence then have its own seed."""
        return _or(self.sampling_topk, 1) != 1

    def _beam_size(self, defaults: DecodingDefaults) -> int:
        hypotheses = 1 if self.return_alternatives else _or(self.num_hypotheses, 1)
        widest = 1 if self.samples else max(defaults.beam_size, hypotheses)
        return _or(self.beam_size, widest)

    def _lengths(
        self, limits: SentenceLimits, source_tokens: int, unread: int = 0, forced: int = 0
    ) -> tuple[int, int]:
        """The maximum and minimum length of the translation, in tokens.

        ``unread`` and ``forced`` are the lengths of the source's and the target's prefix.
        """
        longest = _TOKENS_PER_SOURCE_TOKEN * source_tokens + _TOKENS_ALWAYS
        of_text = source_tokens - unread
        if self.max_length_ratio is not None:
            longest = max(1, math.ceil(self.max_length_ratio * of_text)) + forced
        if self.max_decoding_length is not None:
            longest = self.max_decoding_length + forced
        shortest = _or(self.min_decoding_length, 1)
        if self.min_length_ratio is not None:
            shortest = max(shortest, math.floor(self.min_length_ratio * of_text))
        return min(limits.target_length, longest), shortest + forced


NO_OVERRIDES = DecodingOverrides()

_options = lru_cache(256)(DecodingOptions)
"""Most sentences share their options with others. Checking them takes longer than finding them."""

_RESOLVED = {
    *("beam_size", "suppress_sequences", "target_prefix", "seed"),
    *("min_decoding_length", "max_decoding_length"),
}
_PASSED_ON = sorted(
    set(DecodingOverrides.model_fields).intersection(
        option.name for option in fields(DecodingOptions)
    )
    - _RESOLVED
)
"""Options of the same name and meaning here and in the engine, which has their defaults."""


def _private_use(direction: Direction | None) -> bool:
    return direction is not None and direction.private_use


def _or(value: T | None, default: T) -> T:
    return default if value is None else value
