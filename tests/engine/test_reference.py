"""Tests of the reference search where CTranslate2 has no such option or gives invalid output."""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine.types import Decoded, DecodingOptions, FinishReason
from tests.engine.reference import Floats, Model, reference_decode

UNK, EOS, VOCABULARY = 1, 3, 12
A, B, C, D = 4, 5, 6, 7


def random_model(prefix: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Pseudo-random but fixed logits and attention for every prefix."""
    generator = np.random.default_rng(zlib.crc32(repr(prefix).encode()))
    logits = generator.normal(size=VOCABULARY).astype(np.float32) * 2
    attention = generator.dirichlet(np.ones(4)).astype(np.float32)
    return logits, attention


def likely(tokens: dict[tuple[int, ...], dict[int, float]]) -> Model:
    """A model with the given probabilities by prefix; all other tokens share 1e-6."""

    def model(prefix: tuple[int, ...]) -> tuple[Floats, Floats]:
        probabilities = np.full(VOCABULARY, 1e-6 / VOCABULARY)
        for token, probability in tokens.get(prefix, {}).items():
            probabilities[token] = probability
        return np.log(probabilities).astype(np.float32), np.full(2, 0.5, np.float32)

    return model


def decode(
    model: Model = random_model, allowed: frozenset[int] | None = None, **options: Any
) -> Decoded:
    given_options = DecodingOptions(**{"max_decoding_length": 8, **options})
    return reference_decode(model, given_options, eos=EOS, unk=UNK, allowed=allowed)


def tokens_of(decoded: Decoded) -> list[tuple[int, ...]]:
    return [hypothesis.token_ids for hypothesis in decoded.hypotheses]


@pytest.mark.parametrize("way", [{"beam_size": 3}, {"beam_size": 1}])
def test_without_an_allowed_token_the_live_rows_are_the_hypotheses(way: dict[str, Any]) -> None:
    decoded = decode(allowed=frozenset({A, B}), no_repeat_ngram_size=1, **way)
    assert sorted(decoded.hypotheses[0].token_ids) == [A, B]
    assert decoded.finish_reason is FinishReason.LENGTH
    nothing = decode(allowed=frozenset(), num_hypotheses=1, **way)
    assert tokens_of(nothing) == [()]
    assert nothing.hypotheses[0].score == 0


def test_stuck_rows_are_dropped_if_a_hypothesis_has_finished() -> None:
    model = likely({(): {A: 0.6, B: 0.4}, (A,): {EOS: 1.0}, (B,): {C: 1.0}})
    decoded = decode(
        model,
        frozenset({A, B, C, EOS}),
        beam_size=2,
        num_hypotheses=2,
        # Every word at most once, and eos only after A: all other rows get stuck.
        no_repeat_ngram_size=1,
        suppress_sequences=((A, B), (A, C), (B, EOS), (B, A), (C, EOS), (C, A)),
    )
    assert tokens_of(decoded) == [(A,)]
    assert decoded.finish_reason is FinishReason.COMPLETE


def test_an_ending_after_a_forced_prefix_counts_only_if_it_is_likeliest() -> None:
    model = likely({(A,): {B: 0.6, EOS: 0.4}})
    decoded = decode(
        model, target_prefix=(A,), beam_size=2, num_hypotheses=2, max_decoding_length=2
    )
    assert tokens_of(decoded) == [(A, B)]


def test_length_normalisations_divide_by_their_formulas() -> None:
    model = likely({(): {A: 0.6, B: 0.4}, (A,): {EOS: 0.7, B: 0.3}})
    total = math.log(0.6) + math.log(0.7)
    for normalisation, norm in (("power", 2**0.6), ("gnmt", (7 / 6) ** 0.6)):
        decoded = decode(model, beam_size=1, length_penalty=0.6, length_normalisation=normalisation)
        assert tokens_of(decoded) == [(A,)]
        assert decoded.hypotheses[0].score == pytest.approx(total / norm, rel=1e-5)


@settings(max_examples=25)
@given(st.frozensets(st.integers(A, VOCABULARY - 1), min_size=2), st.sampled_from([1, 2, 4]))
def test_a_shortlist_suppresses_all_other_tokens(words: frozenset[int], beam_size: int) -> None:
    others = tuple((token,) for token in range(VOCABULARY) if token not in words | {EOS})
    allowed = decode(allowed=words | {EOS}, beam_size=beam_size, num_hypotheses=beam_size)
    assert allowed == decode(
        suppress_sequences=others, beam_size=beam_size, num_hypotheses=beam_size
    )
    assert {token for tokens in tokens_of(allowed) for token in tokens} <= words


def test_a_sampled_row_does_not_depend_on_the_number_of_rows() -> None:
    options: dict[str, Any] = {"beam_size": 1, "sampling_topk": 0, "seed": 5}
    few = decode(num_hypotheses=2, **options)
    many = decode(num_hypotheses=6, **options)
    assert set(few.hypotheses) < set(many.hypotheses)
    assert len(set(tokens_of(many))) > 1
    assert decode(num_hypotheses=6, **options) == many
    assert decode(num_hypotheses=6, **{**options, "seed": 6}) != many
    scores = [hypothesis.score for hypothesis in many.hypotheses]
    assert scores == sorted(scores, reverse=True)


def test_a_sampled_hypothesis_is_scored_with_the_models_log_probabilities() -> None:
    (hypothesis,) = decode(
        beam_size=1,
        sampling_topk=0,
        sampling_temperature=2.0,
        length_penalty=0.0,
        max_decoding_length=4,
    ).hypotheses
    forced = (*hypothesis.token_ids, EOS)[:4]
    total = 0.0
    for step, token in enumerate(forced):
        logits, _ = random_model(forced[:step])
        if step == 0:
            logits[EOS] = -np.inf
        total += float(logits[token] - np.logaddexp.reduce(logits))
    assert hypothesis.score == pytest.approx(total, rel=1e-5)
