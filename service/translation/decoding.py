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
from typing import Any, TypeVar

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


# More than any translation is forced to begin with or kept from writing. Encoding them takes less
# than a millisecond.
_LONGEST_CONSTRAINTS = 4_000


@dataclass(frozen=True, slots=True)
class Constraints:
    """Token ids of a request's forced prefix and suppressed sequences, encoded once per request."""

    target_prefix: tuple[int, ...] = ()
    suppress_sequences: tuple[tuple[int, ...], ...] = ()


UNCONSTRAINED = Constraints()


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingOverrides:
    """A request's decoding options; ``None`` is the bundle's default.

    Fields are those of ``DecodingOptions``, except that prefixes and suppressed sequences are text,
    and lengths may be relative to the source's.
    """

    beam_size: int | None = None
    patience: float | None = None
    num_hypotheses: int | None = None
    length_penalty: float | None = None
    length_normalisation: LengthNormalisation | None = None
    coverage_penalty: float | None = None
    repetition_penalty: float | None = None
    no_repeat_ngram_size: int | None = None
    disable_unk: bool | None = None
    suppress_sequences: tuple[str, ...] = ()
    target_prefix: str = ""
    """Forced beginning of the first sentence's translation."""
    prefix_bias_beta: float | None = None
    min_decoding_length: int | None = None
    max_decoding_length: int | None = None
    min_length_ratio: float | None = None
    """Minimum of target tokens per source token, with ``eos`` counted on both sides."""
    max_length_ratio: float | None = None
    sampling_topk: int | None = None
    sampling_topp: float | None = None
    sampling_temperature: float | None = None
    seed: int | None = None
    """Seed of sampling; ``None`` draws a random seed per request."""
    keep_figures: bool | None = None
    """Whether a finished hypothesis that keeps the figures of the source is preferred. Has no
    effect with scores or several hypotheses, which are sorted by score."""
    return_alternatives: bool = False
    """Whether the ``num_hypotheses`` likeliest tokens after the target prefix are each continued by
    a search, as in CTranslate2."""
    min_alternative_expansion_prob: float | None = None
    """Least probability of these tokens."""
    return_scores: bool = False
    """Whether to compute scores; greedy search is faster without them."""

    def constraints(self, encode: Encode) -> Constraints:
        """The constraints as token ids. ``encode`` converts text to token ids.

        Raises ``InvalidOption`` if they are longer together than any translation needs, or exclude
        one another.
        """
        if self.return_alternatives and self.prefix_bias_beta:
            raise InvalidOption("return_alternatives excludes prefix_bias_beta")
        characters = len(self.target_prefix) + sum(map(len, self.suppress_sequences))
        if characters > _LONGEST_CONSTRAINTS:
            raise InvalidOption(
                f"target_prefix and suppress_sequences have {characters} characters together; at "
                f"most {_LONGEST_CONSTRAINTS} are read"
            )
        return Constraints(
            encode(self.target_prefix) if self.target_prefix else (),
            tuple(encode(text) for text in self.suppress_sequences),
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
    def alternatives(self) -> int:
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
    {option.name for option in fields(DecodingOverrides)}.intersection(
        option.name for option in fields(DecodingOptions)
    )
    - _RESOLVED
)
"""Options of the same name and meaning here and in the engine, which has their defaults."""


def _private_use(direction: Direction | None) -> bool:
    return direction is not None and direction.private_use


def _or(value: T | None, default: T) -> T:
    return default if value is None else value
