from __future__ import annotations

import pytest

from models.bundle.manifest import DecodingDefaults, SentenceLimits
from service.engine.types import DecodingOptions
from service.translation.decoding import DecodingOverrides
from service.translation.errors import InvalidOption

DEFAULTS = DecodingDefaults(beam_size=4, length_penalty=0.7)
LIMITS = SentenceLimits(source_length=128, target_length=200)


def resolve(source_tokens: int = 10, **overrides: float) -> DecodingOptions:
    return DecodingOverrides(**overrides).resolve(DEFAULTS, LIMITS, source_tokens)  # type: ignore[arg-type]


def test_what_a_request_leaves_open_is_the_default_of_the_bundle() -> None:
    assert resolve() == DecodingOptions(
        beam_size=4,
        num_hypotheses=1,
        length_penalty=0.7,
        max_decoding_length=50,
        return_scores=False,
    )


def test_a_translation_may_be_three_times_as_long_as_its_source_and_a_little_more() -> None:
    assert resolve(source_tokens=2).max_decoding_length == 26
    assert resolve(source_tokens=100).max_decoding_length == 200


def test_a_request_may_ask_for_less_but_not_for_more_than_the_model_writes() -> None:
    assert resolve(max_decoding_length=7).max_decoding_length == 7
    assert resolve(max_decoding_length=10**30).max_decoding_length == 200


def test_the_beam_is_as_wide_as_the_hypotheses_need() -> None:
    assert resolve(num_hypotheses=6).beam_size == 6
    assert resolve(num_hypotheses=2).beam_size == 4


def test_options_that_contradict_each_other_are_refused_by_name() -> None:
    with pytest.raises(InvalidOption, match="num_hypotheses must not be larger than beam_size"):
        resolve(beam_size=2, num_hypotheses=3)
