"""How a sentence is decoded when a request says some of it, or nothing.

What a request leaves open is the bundle's default. A beam is widened to the number of
hypotheses asked for, unless the request fixes both.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from models.bundle.manifest import (
    DecodingDefaults,
    Direction,
    LengthNormalisation,
    SentenceLimits,
)
from service.engine.types import DecodingOptions
from service.translation.errors import InvalidOption

T = TypeVar("T")
Encode = Callable[[str], tuple[int, ...]]

# Translations rarely have more than twice the tokens of their source; three times and a
# little more leaves room for short sentences and stops a repetition before it costs much.
_TOKENS_PER_SOURCE_TOKEN = 3
_TOKENS_ALWAYS = 20


def _no_text(text: str) -> tuple[int, ...]:
    if text:
        raise ValueError("text among the options needs a tokenizer")
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingOverrides:
    """What a request says about decoding; ``None`` leaves it to the bundle.

    Names and meanings are those of ``DecodingOptions``, but that prefixes and what is suppressed
    are text here, and lengths may be given in relation to the source's.
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
    """What the translation of the first sentence begins with."""
    prefix_bias_beta: float | None = None
    min_decoding_length: int | None = None
    max_decoding_length: int | None = None
    min_length_ratio: float | None = None
    """Target tokens per source token at least, ``eos`` counted on both sides."""
    max_length_ratio: float | None = None
    sampling_topk: int | None = None
    sampling_topp: float | None = None
    sampling_temperature: float | None = None
    seed: int | None = None
    """Of sampling; without one, every request draws otherwise."""
    keep_figures: bool | None = None
    """Whether the finished hypothesis that keeps the figures of the source is preferred. Has no
    effect if scores or several hypotheses are wanted, since these come in the order of scores."""
    return_scores: bool = False
    """Whether scores are wanted; greedy search is faster without."""

    def resolve(
        self,
        defaults: DecodingDefaults,
        limits: SentenceLimits,
        source_tokens: int,
        encode: Encode = _no_text,
        sentence: int = 0,
        direction: Direction | None = None,
        *,
        has_figures: bool = False,
    ) -> DecodingOptions:
        """The options for a sentence of ``source_tokens`` tokens, prefix and ``eos`` included.

        ``encode`` gives the token ids of text, ``sentence`` is the sentence's number in its text,
        ``direction`` says what is fed to the decoder before it writes, ``has_figures`` whether
        the source has figures that a translation may lose. A translation may have
        ``3 * source_tokens + 20`` tokens, prefix and ``eos`` included, but not more than the
        network can write; reaching that length is told as ``FinishReason.LENGTH``. What a request
        says about lengths is of the text alone. Raises ``InvalidOption`` for values that make no
        sense.
        """
        forced = direction.target_prefix if direction is not None else ()
        unread = len(direction.source_prefix) if direction is not None else 0
        longest, shortest = self._lengths(limits, source_tokens, unread, len(forced))
        seed = _or(self.seed, 0)
        if self._samples and self.seed is None:
            seed = secrets.randbits(64)
        try:
            return DecodingOptions(
                beam_size=self._beam_size(defaults),
                patience=_or(self.patience, 1.0),
                num_hypotheses=_or(self.num_hypotheses, 1),
                length_penalty=_or(self.length_penalty, defaults.length_penalty),
                length_normalisation=_or(self.length_normalisation, defaults.length_normalisation),
                coverage_penalty=_or(self.coverage_penalty, 0.0),
                repetition_penalty=_or(self.repetition_penalty, 1.0),
                no_repeat_ngram_size=_or(self.no_repeat_ngram_size, 0),
                disable_unk=_or(self.disable_unk, False),
                suppress_sequences=tuple(encode(text) for text in self.suppress_sequences),
                target_prefix=(*forced, *(encode(self.target_prefix) if not sentence else ())),
                forced_prefix_length=len(forced),
                prefix_bias_beta=_or(self.prefix_bias_beta, 0.0),
                min_decoding_length=shortest,
                max_decoding_length=longest,
                sampling_topk=_or(self.sampling_topk, 1),
                sampling_topp=_or(self.sampling_topp, 1.0),
                sampling_temperature=_or(self.sampling_temperature, 1.0),
                all_finished=has_figures and self._chooses_by_figures(defaults, direction),
                return_scores=self.return_scores,
                # Sentences of one text must not all draw the same numbers.
                seed=(seed + sentence) % 2**64 if seed >= 0 else seed,
            )
        except ValueError as error:
            raise InvalidOption(str(error)) from error

    def work(self, defaults: DecodingDefaults, limits: SentenceLimits, source_tokens: int) -> int:
        """How many source tokens would be as much work, were nothing overridden; at least as many
        as there are.

        A wider beam makes every step longer, and a translation that must be long takes more steps.
        """
        rows = _or(self.num_hypotheses, 1) if self._samples else self._beam_size(defaults)
        _, shortest = self._lengths(limits, source_tokens)
        steps = max(source_tokens, min(shortest, limits.target_length))
        return math.ceil(steps * max(1.0, rows / defaults.beam_size))

    def _chooses_by_figures(self, defaults: DecodingDefaults, direction: Direction | None) -> bool:
        """Whether one hypothesis is wanted, without a score, and the search finds several."""
        keeps = _or(self.keep_figures, _or(defaults.keep_figures, not _private_use(direction)))
        alone = _or(self.num_hypotheses, 1) == 1 and not self.return_scores
        return keeps and alone and self._beam_size(defaults) > 1

    @property
    def _samples(self) -> bool:
        return _or(self.sampling_topk, 1) != 1

    def _beam_size(self, defaults: DecodingDefaults) -> int:
        widest = 1 if self._samples else max(defaults.beam_size, _or(self.num_hypotheses, 1))
        return _or(self.beam_size, widest)

    def _lengths(
        self, limits: SentenceLimits, source_tokens: int, unread: int = 0, forced: int = 0
    ) -> tuple[int, int]:
        """The longest and the shortest translation allowed, in tokens.

        ``unread`` of the source and ``forced`` of the target are no tokens of the texts.
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


def _private_use(direction: Direction | None) -> bool:
    return direction is not None and direction.private_use


def _or(value: T | None, default: T) -> T:
    return default if value is None else value
