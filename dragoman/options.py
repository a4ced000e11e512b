"""What may be said about a translation beside its languages. Knows no HTTP."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypedDict

Texts = list[str] | tuple[str, ...]

Kind = Literal["cross", "encoder", "decoder"]
"""What looks at what: the translation at its source, the source at itself, the translation at
itself."""

Choice = int | Sequence[int] | Literal["all", "mean"]
"""Of layers or heads, counted from 0."""


class DecodingOptions(TypedDict, total=False):
    """How the model searches. What is left out is as the bundle has it; docs/api.md has bounds."""

    beam_size: int
    """Width of the beam search; 1 is greedy search."""
    patience: float
    """The search ends when ``beam_size`` times this hypotheses have ended."""
    num_hypotheses: int
    """One more than ``alternatives``."""
    length_penalty: float
    """Scores are divided by the length to this power."""
    length_normalisation: Literal["power", "gnmt"]
    """``gnmt`` divides by ((5 + T) / 6) to that power instead."""
    coverage_penalty: float
    """Above 0, punishes source tokens that were not looked at."""
    repetition_penalty: float
    """Above 1, tokens already written get unlikelier."""
    no_repeat_ngram_size: int
    """No sequence of so many tokens is written twice; 0 allows it."""
    disable_unk: bool
    """Never write the unknown token."""
    suppress_sequences: Sequence[str]
    """Texts that are never written."""
    target_prefix: str
    """What each translation begins with."""
    prefix_bias_beta: float
    """Above 0, the prefix is favoured by so much rather than forced."""
    min_decoding_length: int
    max_decoding_length: int
    """Shortest and longest translation of a sentence, in tokens."""
    min_length_ratio: float
    max_length_ratio: float
    """The same per source token."""
    sampling_topk: int
    """1 searches; more draws each token from so many likeliest, 0 from all."""
    sampling_topp: float
    """Draws from the likeliest tokens that make up so much."""
    sampling_temperature: float
    """Above 1, draws are more even."""
    seed: int
    """Draws with the same seed are the same."""
    keep_figures: bool
    """Prefer the hypothesis that keeps the figures of the source."""


class TranslateOptions(DecodingOptions, total=False):
    """All that a translation may be asked for with."""

    format: Literal["text", "html"]
    """In ``html``, tags stay around the words they belong to."""
    alternatives: int
    """So many other translations."""
    model: str
    """By its name; chosen by languages if left out."""
    attention: bool
    """Keep the translation, so that its attention can be asked for."""
    return_scores: bool
    """Say how likely the translations are."""
    timings: bool
    """Say where the time went."""
    priority: Literal["interactive", "bulk"]
    """``bulk`` waits behind those who are waited for."""


def check(options: Iterable[str]) -> None:
    """Raises ``TypeError`` for a name that is none, which the service would ignore."""
    for name in options:
        if name not in TranslateOptions.__optional_keys__:
            raise TypeError(f"there is no option {name!r}; TranslateOptions has those there are")
