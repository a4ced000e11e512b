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
from tests.engine.company import decode_arriving
from tests.engine.options import any_options, plain_options
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
TOKENS = st.integers(3, VOCABULARY - 1)

sources = st.lists(TOKENS, min_size=1, max_size=8).map(tuple)

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
    return decode_arriving(backend, scheduler, arriving, rng)


def decode_alone(model: Script, source: tuple[int, ...], options: DecodingOptions) -> Decoded:
    def after(prefix: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
        whole = (BOS, *prefix)
        return model(source, whole), random_attention(source, whole)

    return reference_decode(after, options, eos=EOS, unk=SPECIAL_IDS.unk)


@pytest.mark.parametrize("model", [random_model, undecided_model])
@pytest.mark.parametrize("options", [plain_options(), any_options(TOKENS)], ids=["plain", "any"])
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
