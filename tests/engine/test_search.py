"""The batched search finds what the plain one finds, whatever is asked and whoever is there."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine.scheduler import Scheduler, Sequence
from service.engine.types import Decoded, DecodingOptions
from service.runtime.backend import FloatArray, Limits
from service.runtime.scripted import Script, ScriptedBackend
from tests.engine.reference import reference_decode
from tests.engine.toy import (
    BOS,
    EOS,
    SPECIAL_IDS,
    VOCABULARY,
    random_attention,
    random_model,
    undecided_model,
)

LIMITS = Limits(slots=3, rows_per_slot=5, source_length=8, target_length=16)

tokens = st.integers(3, VOCABULARY - 1)
sources = st.lists(tokens, min_size=1, max_size=8).map(tuple)
sometimes = st.sampled_from([False, False, True])


@st.composite
def plain_options(draw: st.DrawFn) -> DecodingOptions:
    beam_size = draw(st.integers(1, 5))
    return DecodingOptions(
        beam_size=beam_size,
        num_hypotheses=draw(st.integers(1, beam_size)),
        min_decoding_length=0,
        max_decoding_length=draw(st.integers(1, 10)),
        length_penalty=draw(st.sampled_from([0.0, 0.6, 1.0])),
    )


@st.composite
def any_options(draw: st.DrawFn) -> DecodingOptions:
    def maybe(strategy: st.SearchStrategy, otherwise: object) -> object:
        return draw(strategy) if draw(sometimes) else otherwise

    samples = draw(sometimes)
    beam_size = 1 if samples else draw(st.integers(1, 5))
    patience = 1.0 if samples else draw(st.sampled_from([0.5, 1.0, 1.0, 2.0]))
    most = 5 if samples else max(1, int(beam_size * patience + 0.5))
    max_length = draw(st.integers(1, 10))
    prefix = maybe(st.lists(tokens, max_size=max_length - 1).map(tuple), ())
    assert isinstance(prefix, tuple)
    return DecodingOptions(
        beam_size=beam_size,
        patience=patience,
        num_hypotheses=draw(st.integers(1, most)),
        length_penalty=draw(st.sampled_from([-0.5, 0.0, 0.6, 1.0])),
        length_normalisation=draw(st.sampled_from(["power", "gnmt"])),
        coverage_penalty=0.0 if samples else maybe(st.floats(0, 1), 0.0),
        repetition_penalty=maybe(st.sampled_from([0.5, 1.3, 3.0]), 1.0),
        no_repeat_ngram_size=maybe(st.integers(1, 3), 0),
        disable_unk=draw(sometimes),
        suppress_sequences=maybe(
            st.lists(
                st.lists(st.integers(2, 11), min_size=1, max_size=3).map(tuple), max_size=3
            ).map(tuple),
            (),
        ),
        target_prefix=prefix,
        prefix_bias_beta=0.0 if samples else maybe(st.sampled_from([0.2, 0.9]), 0.0),
        min_decoding_length=draw(st.integers(0, min(3, max_length))),
        max_decoding_length=max_length,
        sampling_topk=draw(st.sampled_from([0, 2, 5])) if samples else 1,
        sampling_topp=draw(st.sampled_from([0.5, 0.9, 1.0])),
        sampling_temperature=draw(st.sampled_from([0.5, 1.0, 2.0])),
        seed=draw(st.integers(0, 2**64 - 1)),
    )


Request = tuple[tuple[int, ...], DecodingOptions]


def decode_in_company(
    model: Script, requests: list[Request], rng: random.Random, max_padded_tokens: int
) -> dict[int, Decoded]:
    """Requests that arrive at random moments while others are being decoded."""
    scheduler = Scheduler(LIMITS, SPECIAL_IDS, max_padded_tokens=max_padded_tokens)
    backend = ScriptedBackend(model, LIMITS, random_attention)
    arriving = [
        Sequence(i, *request, rng.choice(["interactive", "bulk"]))
        for i, request in enumerate(requests)
    ]
    results: dict[int, Decoded] = {}
    while arriving or scheduler.has_work:
        while arriving and (rng.random() < 0.4 or not scheduler.has_work):
            scheduler.add(arriving.pop(0))
        plan = scheduler.schedule()
        for origin, slot in plan.moves:
            backend.move(origin, slot)
        if plan.encode is not None:
            backend.encode(plan.encode)
        if plan.step is None:
            continue
        for sequence, decoded in scheduler.apply(backend.step(plan.step)):
            assert isinstance(decoded, Decoded)
            results[sequence.id] = decoded
        scheduler.check_integrity()
    return results


def decode_alone(model: Script, source: tuple[int, ...], options: DecodingOptions) -> Decoded:
    def after(prefix: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
        whole = (BOS, *prefix)
        return model(source, whole), random_attention(source, whole)

    return reference_decode(after, options, eos=EOS, unk=SPECIAL_IDS.unk)


@pytest.mark.parametrize("model", [random_model, undecided_model])
@pytest.mark.parametrize("options", [plain_options(), any_options()], ids=["plain", "any"])
@settings(max_examples=120, deadline=None)
@given(
    data=st.data(),
    max_padded_tokens=st.integers(1, 30),
    rng=st.randoms(),
)
def test_a_sentence_translates_in_any_company_as_the_plainest_search_does_alone(
    model: Script,
    options: st.SearchStrategy[DecodingOptions],
    data: st.DataObject,
    max_padded_tokens: int,
    rng: random.Random,
) -> None:
    requests = data.draw(st.lists(st.tuples(sources, options), min_size=1, max_size=8))
    results = decode_in_company(model, requests, rng, max_padded_tokens)
    for i, request in enumerate(requests):
        expected, found = decode_alone(model, *request), results[i]
        assert [h.token_ids for h in found.hypotheses] == [
            h.token_ids for h in expected.hypotheses
        ], request
        assert np.allclose(
            [h.score for h in found.hypotheses], [h.score for h in expected.hypotheses]
        )
        assert found.finish_reason is expected.finish_reason
