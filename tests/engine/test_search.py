"""Compares the batched search with the reference search, for any options and any batch."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine.scheduler import Scheduler, Sequence
from service.engine.search import Search
from service.engine.types import MOST_SAMPLED, Decoded, DecodingOptions
from service.runtime.backend import EncodeBatch, FloatArray, Limits
from tests.engine.batch_runner import decode_arriving
from tests.engine.options import any_options, plain_options
from tests.engine.reference import reference_decode
from tests.engine.toy import (
    BOS,
    EOS,
    SPECIAL_IDS,
    VOCABULARY,
    copying_model,
    random_attention,
    random_model,
    undecided_model,
)
from tests.support.toy import Script, ScriptedBackend

LIMITS = Limits(slots=3, rows_per_slot=5, source_length=8, target_length=16)
TOKENS = st.integers(3, VOCABULARY - 1)

sources = st.lists(TOKENS, min_size=1, max_size=8).map(tuple)

Request = tuple[tuple[int, ...], DecodingOptions]


def decode_batched(
    model: Script, requests: list[Request], rng: random.Random, max_padded_tokens: int
) -> dict[int, Decoded]:
    """Decode requests that arrive at random steps; results by index."""
    scheduler = Scheduler(LIMITS, SPECIAL_IDS, max_padded_tokens=max_padded_tokens)
    backend = ScriptedBackend(model, LIMITS, random_attention)
    arriving = [
        Sequence(i, *request, rng.choice(["interactive", "bulk"]))
        for i, request in enumerate(requests)
    ]
    return decode_arriving(backend, scheduler, arriving, rng)


def decode_alone(model: Script, source: tuple[int, ...], options: DecodingOptions) -> Decoded:
    def after(prefix: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
        whole = (BOS, *prefix)
        return model(source, whole), random_attention(source, whole)

    never = {SPECIAL_IDS.pad, BOS}
    return reference_decode(after, options, eos=EOS, unk=SPECIAL_IDS.unk, never=never)


@pytest.mark.parametrize("model", [random_model, undecided_model])
@pytest.mark.parametrize("options", [plain_options(), any_options(TOKENS)], ids=["plain", "any"])
@settings(max_examples=120, deadline=None)
@given(
    data=st.data(),
    max_padded_tokens=st.integers(1, 30),
    rng=st.randoms(),
)
def test_batched_search_equals_the_reference_search_in_any_batch(
    model: Script,
    options: st.SearchStrategy[DecodingOptions],
    data: st.DataObject,
    max_padded_tokens: int,
    rng: random.Random,
) -> None:
    requests = data.draw(st.lists(st.tuples(sources, options), min_size=1, max_size=8))
    results = decode_batched(model, requests, rng, max_padded_tokens)
    for i, request in enumerate(requests):
        expected, found = decode_alone(model, *request), results[i]
        assert [h.token_ids for h in found.hypotheses] == [
            h.token_ids for h in expected.hypotheses
        ], request
        assert np.allclose(
            [h.score for h in found.hypotheses], [h.score for h in expected.hypotheses]
        )
        assert found.finish_reason is expected.finish_reason


@settings(max_examples=100, deadline=None)
@given(data=st.data(), rng=st.randoms())
def test_all_finished_adds_hypotheses_and_keeps_the_best_unchanged(
    data: st.DataObject, rng: random.Random
) -> None:
    options = any_options(TOKENS)
    requests = data.draw(st.lists(st.tuples(sources, options), min_size=1, max_size=4))
    wanting_all = [(source, replace(asked, all_finished=True)) for source, asked in requests]
    usual = decode_batched(random_model, requests, rng, 30)
    found = decode_batched(random_model, wanting_all, rng, 30)
    for number in range(len(requests)):
        best = usual[number].hypotheses
        further = found[number].hypotheses[len(best) :]
        assert found[number].hypotheses[: len(best)] == best
        assert found[number].finish_reason is usual[number].finish_reason
        assert all(each.score <= best[-1].score for each in further)


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_all_finished_takes_no_additional_step(length_penalty: float) -> None:
    options = DecodingOptions(beam_size=4, length_penalty=length_penalty, max_decoding_length=12)
    counts, hypotheses = [], []
    for asked in (options, replace(options, all_finished=True)):
        backend = ScriptedBackend(undecided_model, LIMITS)
        scheduler = Scheduler(LIMITS, SPECIAL_IDS, max_padded_tokens=30)
        arriving = [Sequence(0, (4, 5, 6, EOS), asked, "interactive")]
        found = decode_arriving(backend, scheduler, arriving, random.Random(1))[0]
        counts.append(len(backend.batch_sizes))
        hypotheses.append(found.hypotheses)
    assert counts[0] == counts[1]
    assert len(hypotheses[0]) == 1
    assert hypotheses[1][:1] == hypotheses[0]
    assert len(hypotheses[1]) > 1 or length_penalty == 0


def test_coverage_penalty_applies_to_a_stuck_hypothesis() -> None:
    nothing_left = DecodingOptions(
        beam_size=1,
        num_hypotheses=1,
        coverage_penalty=1.0,
        no_repeat_ngram_size=1,
        disable_unk=True,
        suppress_sequences=((EOS,),),
        min_decoding_length=0,
        max_decoding_length=10,
    )
    source = (4, 5, 6, 7)
    found = decode_batched(random_model, [(source, nothing_left)], random.Random(1), 30)[0]
    expected = decode_alone(random_model, source, nothing_left)
    assert len(found.hypotheses[0].token_ids) == VOCABULARY - 4
    assert found.hypotheses[0].token_ids == expected.hypotheses[0].token_ids
    assert found.hypotheses[0].score == pytest.approx(expected.hypotheses[0].score)


def favouring_pad_and_bos(source: tuple[int, ...], prefix: tuple[int, ...]) -> FloatArray:
    logits = random_model(source, prefix).copy()
    logits[[SPECIAL_IDS.pad, BOS]] = 9
    return logits


@pytest.mark.parametrize("beam_size", [1, 2, 4])
def test_pad_and_bos_are_never_written_and_do_not_displace_candidates(beam_size: int) -> None:
    options = DecodingOptions(
        beam_size=beam_size, num_hypotheses=beam_size, max_decoding_length=6, length_penalty=0.6
    )
    source = (4, 5, 6, 7)
    model = favouring_pad_and_bos
    found = decode_batched(model, [(source, options)], random.Random(1), 30)[0]
    expected = decode_alone(model, source, options)
    assert [h.token_ids for h in found.hypotheses] == [h.token_ids for h in expected.hypotheses]
    assert not {SPECIAL_IDS.pad, BOS} & {i for h in found.hypotheses for i in h.token_ids}


def test_scores_are_not_computed_after_a_forced_prefix() -> None:
    limits = Limits(slots=1, rows_per_slot=1, source_length=8, target_length=16)
    backend = ScriptedBackend(copying_model, limits)
    search = Search(limits, SPECIAL_IDS)
    source = (4, 5, 6, 7, 8, EOS)
    options = DecodingOptions(
        beam_size=1, target_prefix=(4, 5), min_decoding_length=0, return_scores=False
    )
    backend.encode(EncodeBatch(0, [source]))
    search.add(options, len(source))
    scores, over = [], []
    while not over:
        batch = search.batch()
        scores.append(batch.scores)
        over = search.advance(backend.step(batch))
    # The first step after the prefix still uses the constraints.
    assert scores == [True, True, True, False, False, False]
    ((_, decoded),) = over
    assert isinstance(decoded, Decoded)
    assert decoded.hypotheses[0].token_ids == source[:-1]


@pytest.mark.parametrize(
    ("topk", "candidates"), [(0, MOST_SAMPLED), (10, 10), (5, 8), (1_000_000, MOST_SAMPLED)]
)
def test_sampling_bounds_the_candidates_of_the_whole_batch(topk: int, candidates: int) -> None:
    search = Search(LIMITS, SPECIAL_IDS)
    search.add(DecodingOptions(beam_size=4), 3)
    search.add(DecodingOptions(beam_size=1, sampling_topk=topk), 3)
    bos_and_pad = 2
    assert search.batch().num_candidates == candidates + bos_and_pad
