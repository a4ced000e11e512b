"""Decoding options as fields of a request, under CTranslate2's names where it has them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from service.engine.types import LengthNormalisation, Priority
from service.translation.decoding import DecodingOverrides


def _no_boolean(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("should be a number")
    return value


Number = Annotated[int, BeforeValidator(_no_boolean)]
Decimal = Annotated[float, BeforeValidator(_no_boolean)]
_Ratio = Annotated[Decimal, Field(gt=0, le=100, allow_inf_nan=False)]


class DecodingParameters(BaseModel):
    """What a request may say about decoding; all of it may be left out."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    beam_size: Number | None = Field(None, ge=1, description="Width of the beam search.")
    patience: Decimal | None = Field(
        None,
        gt=0,
        le=10,
        allow_inf_nan=False,
        description="The search ends when this times `beam_size` hypotheses have ended.",
    )
    num_hypotheses: Number | None = Field(
        None, ge=1, description="Translations to return; one more than `alternatives`."
    )
    length_penalty: Decimal | None = Field(
        None,
        ge=-10,
        le=10,
        allow_inf_nan=False,
        description="Scores are divided by the length to this power.",
    )
    length_normalisation: LengthNormalisation | None = Field(
        None,
        description="`power` divides by T^length_penalty, `gnmt` by ((5 + T) / 6)^length_penalty.",
    )
    coverage_penalty: Decimal | None = Field(
        None,
        ge=0,
        le=10,
        allow_inf_nan=False,
        description="Punishes translations that have not looked at all of the source.",
    )
    repetition_penalty: Decimal | None = Field(
        None, gt=0, le=100, allow_inf_nan=False, description="Above 1, repetitions get unlikelier."
    )
    no_repeat_ngram_size: Number | None = Field(
        None, ge=0, description="No sequence of so many tokens is written twice."
    )
    disable_unk: bool | None = Field(None, description="Never write the unknown token.")
    suppress_sequences: list[str] | None = Field(
        None, max_length=100, description="Texts that are never written (JSON only)."
    )
    target_prefix: str | None = Field(None, description="What each translation begins with.")
    prefix_bias_beta: Decimal | None = Field(
        None,
        ge=0,
        lt=1,
        allow_inf_nan=False,
        description="Above 0, `target_prefix` is favoured by this much rather than forced.",
    )
    min_decoding_length: Number | None = Field(
        None, ge=0, description="Shortest translation of a sentence, in tokens; 1 if not given."
    )
    max_decoding_length: Number | None = Field(
        None,
        ge=1,
        description="Longest translation of a sentence, in tokens; three times the tokens of the "
        "source and 20 more where it is not given.",
    )
    min_length_ratio: _Ratio | None = Field(
        None, description="Target tokens per source token, at least."
    )
    max_length_ratio: _Ratio | None = Field(
        None, description="Target tokens per source token, at most."
    )
    sampling_topk: Number | None = Field(
        None,
        ge=0,
        description="1 searches; more draws each token from so many likeliest, 0 from all.",
    )
    sampling_topp: Decimal | None = Field(
        None, gt=0, le=1, description="Draws from the likeliest tokens that make up this much."
    )
    sampling_temperature: Decimal | None = Field(
        None, gt=0, le=100, description="Above 1, draws are more even; below, more certain."
    )
    seed: Number | None = Field(
        None,
        ge=0,
        lt=2**64,
        description="Draws with the same seed are the same; without one they differ.",
    )
    priority: Priority = Field(
        "interactive", description="`bulk` waits behind those who are waited for."
    )

    def overrides(self, num_hypotheses: int) -> DecodingOverrides:
        given = self.model_dump(include=set(DecodingParameters.model_fields), exclude_none=True)
        del given["priority"]
        given["suppress_sequences"] = tuple(self.suppress_sequences or ())
        return DecodingOverrides(**{**given, "num_hypotheses": num_hypotheses})
