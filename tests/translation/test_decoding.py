from __future__ import annotations

from typing import Any

import pytest

from models.bundle.manifest import DecodingDefaults, Direction, SentenceLimits
from service.engine.types import DecodingOptions
from service.translation.decoding import DecodingOverrides
from service.translation.errors import InvalidOption

DEFAULTS = DecodingDefaults(beam_size=4, length_penalty=0.7)
LIMITS = SentenceLimits(source_length=128, target_length=200)


def resolve(source_tokens: int = 10, **overrides: float) -> DecodingOptions:
    return DecodingOverrides(**overrides).resolve(DEFAULTS, LIMITS, source_tokens)  # type: ignore[arg-type]


def test_unset_options_take_the_defaults_of_the_bundle() -> None:
    assert resolve() == DecodingOptions(
        beam_size=4,
        num_hypotheses=1,
        length_penalty=0.7,
        max_decoding_length=50,
        return_scores=False,
    )


def test_every_option_of_a_request_reaches_the_engine() -> None:
    given: dict[str, Any] = {
        "patience": 2.0,
        "num_hypotheses": 2,
        "length_penalty": 0.3,
        "length_normalisation": "gnmt",
        "coverage_penalty": 0.2,
        "repetition_penalty": 1.5,
        "no_repeat_ngram_size": 3,
        "disable_unk": True,
        "prefix_bias_beta": 0.5,
        "sampling_topp": 0.9,
        "sampling_temperature": 0.8,
        "return_scores": True,
    }
    options = resolve(**given)
    assert {name: getattr(options, name) for name in given} == given


def test_default_length_limit_is_three_times_the_source_plus_twenty() -> None:
    assert resolve(source_tokens=2).max_decoding_length == 26
    assert resolve(source_tokens=100).max_decoding_length == 200


def test_requested_length_is_capped_at_the_limit_of_the_model() -> None:
    assert resolve(max_decoding_length=7).max_decoding_length == 7
    assert resolve(max_decoding_length=10_000).max_decoding_length == 200


def test_beam_is_widened_to_the_number_of_hypotheses() -> None:
    assert resolve(num_hypotheses=6).beam_size == 6
    assert resolve(num_hypotheses=2).beam_size == 4


def test_options_that_contradict_each_other_are_refused_by_name() -> None:
    with pytest.raises(InvalidOption, match="num_hypotheses must not be larger than beam_size"):
        resolve(beam_size=2, num_hypotheses=3)


@pytest.mark.parametrize(
    "options",
    [
        {"suppress_sequences": ["x" * 600, "y" * 600]},
        {"target_prefix": "x" * 1_001},
        {"beam_size": 0},
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        DecodingOverrides(**options)


def test_sentences_of_a_text_have_one_seed_unless_they_are_sampled() -> None:
    def seeds(**overrides: int) -> set[int]:
        asked = DecodingOverrides(**overrides)
        return {asked.resolve(DEFAULTS, LIMITS, 10, sentence=n).seed for n in range(4)}

    assert seeds() == {0}
    assert seeds(seed=7) == {0}
    assert seeds(seed=7, sampling_topk=5) == {7, 8, 9, 10}
    assert len(seeds(sampling_topk=0)) == 4


def test_work_grows_with_rows_and_with_the_tokens_that_are_sampled_from() -> None:
    def work(**overrides: int) -> int:
        return DecodingOverrides(**overrides).work(DEFAULTS, LIMITS, 10)

    assert work() == work(beam_size=1) == work(num_hypotheses=4) == 10
    assert work(beam_size=8) == work(num_hypotheses=8) == 20
    assert work(sampling_topk=64, num_hypotheses=8) == 25
    assert work(sampling_topk=0, num_hypotheses=8) == 40
    assert work(sampling_topk=1_000_000, num_hypotheses=8) == 40


@pytest.mark.parametrize(
    ("overrides", "default", "expected"),
    [
        ({}, None, True),
        ({}, True, True),
        ({}, False, False),
        ({"keep_figures": True}, False, True),
        ({"keep_figures": False}, None, False),
        ({"return_scores": True}, None, False),
        ({"num_hypotheses": 2}, None, False),
        ({"beam_size": 1}, None, False),
        ({"sampling_topk": 5}, None, False),
        ({"num_hypotheses": 1, "beam_size": 2}, None, True),
    ],
)
def test_all_finished_is_set_where_figures_decide(
    overrides: dict[str, Any], default: bool | None, expected: bool
) -> None:
    defaults = DecodingDefaults(keep_figures=default)
    asked = DecodingOverrides(**overrides)
    assert asked.resolve(defaults, LIMITS, 10, has_figures=True).all_finished is expected
    assert not asked.resolve(defaults, LIMITS, 10, has_figures=False).all_finished


def test_figures_of_private_use_language_decide_only_if_bundle_or_request_sets_it() -> None:
    direction = Direction(source="x-digits", target="x-reversed")

    def all_finished(defaults: DecodingDefaults, overrides: DecodingOverrides) -> bool:
        return overrides.resolve(
            defaults, LIMITS, 10, direction=direction, has_figures=True
        ).all_finished

    assert not all_finished(DecodingDefaults(), DecodingOverrides())
    assert all_finished(DecodingDefaults(keep_figures=True), DecodingOverrides())
    assert all_finished(DecodingDefaults(), DecodingOverrides(keep_figures=True))
