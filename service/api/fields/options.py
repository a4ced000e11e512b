"""Types of request fields, and decoding options as fields.

Decoding options have CTranslate2's names where it has them. They are those of
``translation.decoding.DecodingOverrides`` and of the client's ``DecodingOptions``; a test compares
the three and ``docs/api.md``.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from service.api.fields.bounds import (
    LANGUAGE_CHARACTERS,
    NAME_CHARACTERS,
    PREFIX_CHARACTERS,
    SUPPRESSED_CHARACTERS,
    SUPPRESSED_TEXTS,
)
from service.engine.types import MOST_ALTERNATIVES, LengthNormalisation, Priority
from service.translation.decoding import DecodingOverrides

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
Number = Annotated[int, WHOLE]

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


LanguageCode = Annotated[str, Field(min_length=1, max_length=LANGUAGE_CHARACTERS)]
Name = Annotated[str, Field(min_length=1, max_length=NAME_CHARACTERS)]
"""Name of a model, or an id."""
Texts = Annotated[list[str], Field(fail_fast=True)]
"""Validated up to the first item that is no text: each error costs microseconds on the event loop,
and a body may have a million of them."""
Key = Annotated[str, Field(max_length=NAME_CHARACTERS)]
"""API key; clients without one may send it empty."""


class DecodingParameters(BaseModel):
    """Optional decoding fields of a request."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    beam_size: _Positive | None = Field(None, description="Width of the beam search.")
    patience: Annotated[float, Field(ge=0.5, le=10, allow_inf_nan=False), DECIMAL] | None = Field(
        None, description="The search ends when this times `beam_size` hypotheses have ended."
    )
    num_hypotheses: _Positive | None = Field(
        None, description="Translations to return; one more than `alternatives`."
    )
    length_penalty: Annotated[float, Field(ge=-10, le=10, allow_inf_nan=False), DECIMAL] | None = (
        Field(None, description="Scores are divided by the length to this power.")
    )
    length_normalisation: LengthNormalisation | None = Field(
        None,
        description="`power` divides by T^length_penalty, `gnmt` by ((5 + T) / 6)^length_penalty.",
    )
    coverage_penalty: _UpTo10 | None = Field(
        None, description="Punishes translations that have not looked at all of the source."
    )
    repetition_penalty: _Penalty | None = Field(
        None, description="Above 1, repetitions get unlikelier."
    )
    no_repeat_ngram_size: _Natural | None = Field(
        None, description="No sequence of so many tokens is written twice; 0 allows it."
    )
    disable_unk: bool | None = Field(None, description="Never write the unknown token.")
    suppress_sequences: (
        Annotated[
            list[_Suppressed], Field(max_length=SUPPRESSED_TEXTS), AfterValidator(_check_together)
        ]
        | None
    ) = Field(None, description="Texts that are never written (JSON only).")
    target_prefix: Annotated[str, Field(max_length=PREFIX_CHARACTERS)] | None = Field(
        None, description="What each translation begins with."
    )
    prefix_bias_beta: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False), DECIMAL] | None = (
        Field(
            None,
            description="Above 0, `target_prefix` is favoured by this much rather than forced.",
        )
    )
    min_decoding_length: _Natural | None = Field(
        None, description="Shortest translation of a sentence, in tokens; 1 if not given."
    )
    max_decoding_length: _Positive | None = Field(
        None,
        description="Longest translation of a sentence, in tokens; three times the tokens of the "
        "source and 20 more where it is not given.",
    )
    min_length_ratio: _Ratio | None = Field(
        None, description="Target tokens per source token, at least."
    )
    max_length_ratio: _Ratio | None = Field(
        None, description="Target tokens per source token, at most."
    )
    sampling_topk: Annotated[int, Field(ge=0, le=_MOST_CHOICES), WHOLE] | None = Field(
        None,
        description="1 searches; more draws each token from so many likeliest, at most from 256; "
        "0 means 256.",
    )
    sampling_topp: Annotated[float, Field(gt=0, le=1), DECIMAL] | None = Field(
        None, description="Draws from the likeliest tokens that make up this much."
    )
    sampling_temperature: Annotated[float, Field(ge=0.001, le=100), DECIMAL] | None = Field(
        None, description="Above 1, draws are more even; below, more certain."
    )
    seed: Annotated[int, Field(ge=0, le=_LARGEST_SEED), WHOLE] | None = Field(
        None, description="Draws with the same seed are the same; without one they differ."
    )
    keep_figures: bool | None = Field(
        None,
        description="Prefer, among the finished hypotheses of the beam, the one that keeps the "
        "figures and signs of the source. Ignored if scores or several translations are wanted.",
    )
    priority: Priority | None = Field(
        None,
        description="`bulk` waits behind interactive requests; `interactive` if not given.",
    )
    return_alternatives: bool | None = Field(
        None,
        description="Continue each of the `num_hypotheses` likeliest tokens after the beginning of "
        "the translation.",
    )
    min_alternative_expansion_prob: (
        Annotated[float, Field(ge=0, le=1, allow_inf_nan=False), DECIMAL] | None
    ) = Field(None, description="Least probability of these tokens; 0 if not given.")
    return_scores: bool | None = Field(
        None, description="Whether to say how likely the translations are, in `scores`."
    )

    def overrides(self, num_hypotheses: int) -> DecodingOverrides:
        given = self.model_dump(include=_option_names(), exclude_none=True)
        given.pop("priority", None)
        if not given:
            return _only(num_hypotheses)
        given["suppress_sequences"] = tuple(self.suppress_sequences or ())
        return DecodingOverrides(**{**given, "num_hypotheses": num_hypotheses})


@cache
def _option_names() -> set[str]:
    return set(DecodingParameters.model_fields)


@lru_cache(MOST_ALTERNATIVES)
def _only(num_hypotheses: int) -> DecodingOverrides:
    """Cached overrides of most requests. Building them costs as much as tokenising a sentence."""
    return DecodingOverrides(num_hypotheses=num_hypotheses)
