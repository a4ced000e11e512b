"""Options of a translation request as typed dictionaries. Independent of HTTP."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypedDict

Texts = list[str] | tuple[str, ...]

Kind = Literal["cross", "encoder", "decoder"]
"""Attention of the target to the source, of the source to itself, of the target to itself."""

Choice = int | Sequence[int] | Literal["all", "mean"]
"""Layers or heads, counted from 0."""


class DecodingOptions(TypedDict, total=False):
    """Options of the search. The bundle has the defaults; docs/api.md has the bounds."""

    beam_size: int
    """Width of the beam search; 1 is greedy search."""
    patience: float
    """The search ends after ``beam_size`` times this many finished hypotheses."""
    num_hypotheses: int
    """One more than ``alternatives``."""
    length_penalty: float
    """Scores are divided by the length to this power."""
    length_normalisation: Literal["power", "gnmt"]
    """``gnmt`` divides by ((5 + T) / 6) to that power instead."""
    coverage_penalty: float
    """Penalty for source tokens with little attention; 0 is none."""
    repetition_penalty: float
    """Penalty for tokens that were already generated: above 1 it lowers their probability."""
    no_repeat_ngram_size: int
    """No n-gram of this many tokens is generated twice; 0 allows it."""
    disable_unk: bool
    """Never generate the unknown token."""
    suppress_sequences: Sequence[str]
    """Texts that are never generated."""
    target_prefix: str
    """Text with which each translation begins."""
    prefix_bias_beta: float
    """Weight of a bias towards the prefix; 0 forces the prefix instead."""
    min_decoding_length: int
    max_decoding_length: int
    """Shortest and longest translation of a sentence, in tokens."""
    min_length_ratio: float
    max_length_ratio: float
    """The same per source token."""
    sampling_topk: int
    """1 is beam search; above 1, samples from that many most likely tokens, at most from 256;
    0 means 256."""
    sampling_topp: float
    """Samples from the most likely tokens with this total probability."""
    sampling_temperature: float
    """Divisor of the logits: above 1 it flattens the distribution, below 1 it sharpens it."""
    seed: int
    """The same seed gives the same samples."""
    return_alternatives: bool
    """Continue each of the ``num_hypotheses`` most likely tokens after the prefix."""
    min_alternative_expansion_prob: float
    """Lowest probability of these tokens."""
    keep_figures: bool
    """Prefer a hypothesis that keeps the numbers of the source."""


class TranslateOptions(DecodingOptions, total=False):
    """All options of a translation request."""

    format: Literal["text", "html"]
    """``html`` keeps tags and places them around the aligned words."""
    glossary: Mapping[str, str]
    """Terms of the source and what to write for them."""
    prefix: str
    """Beginning of the translation of a single text, kept character by character."""
    alternatives: int
    """Number of alternative translations."""
    model: str
    """Name of a model; chosen by the languages if omitted."""
    attention: bool
    """Keep the translation on the service for attention requests."""
    confidence: bool
    """Return the probability of each word of the translations; not with ``html``."""
    return_scores: bool
    """Return the scores of the translations."""
    timings: bool
    """Return the time of each stage."""
    priority: Literal["interactive", "bulk"]
    """``bulk`` requests are scheduled after interactive ones."""


def check(options: Iterable[str]) -> None:
    """Raises ``TypeError`` for an unknown option, which the service would ignore."""
    for name in options:
        if name not in TranslateOptions.__optional_keys__:
            known = ", ".join(sorted(TranslateOptions.__optional_keys__))
            raise TypeError(f"there is no option {name!r}; there are {known}")
