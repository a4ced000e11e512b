"""Compares the search that completes a prefix with enumeration of all its spellings."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from service.engine.types import DecodingOptions
from service.runtime.backend import Limits
from tests.engine.batch_runner import decode_together
from tests.engine.toy import BOS, EOS, SPECIAL_IDS, VOCABULARY, random_model

LIMITS = Limits(slots=3, rows_per_slot=5, source_length=8, target_length=16)
TOKENS = st.integers(3, VOCABULARY - 1)
SOURCES = st.lists(TOKENS, min_size=1, max_size=8).map(tuple)


@st.composite
def options(draw: st.DrawFn) -> DecodingOptions:
    prefix = draw(st.lists(TOKENS, min_size=1, max_size=5).map(tuple))
    completions = draw(st.lists(st.frozensets(TOKENS), min_size=1, max_size=len(prefix)))
    beam_size = draw(st.integers(1, 4))
    barred = draw(st.sampled_from([(), (prefix[-1:],)]))
    return DecodingOptions(
        beam_size=beam_size,
        num_hypotheses=draw(st.integers(1, beam_size)),
        length_penalty=draw(st.sampled_from([0.0, 1.0])),
        target_prefix=prefix,
        completions=tuple(completions),
        suppress_sequences=barred,
        max_decoding_length=10,
    )


def completes(written: tuple[int, ...], asked: DecodingOptions) -> bool:
    """Whether tokens are the prefix, or leave it at a completion."""
    prefix = asked.target_prefix
    for number, token in enumerate(written[: len(prefix)]):
        if token != prefix[number]:
            place = number - (len(prefix) - len(asked.completions))
            return place >= 0 and token in asked.completions[place]
    return len(written) >= len(prefix)


@given(st.lists(st.tuples(SOURCES, options()), min_size=1, max_size=4))
def test_hypotheses_complete_the_prefix_alone_and_in_a_batch(
    requests: list[tuple[tuple[int, ...], DecodingOptions]],
) -> None:
    found = decode_together(requests, LIMITS)
    for request, decoded in zip(requests, found, strict=True):
        assert decode_together([request], LIMITS) == [decoded]
        for hypothesis in decoded.hypotheses:
            assert completes(hypothesis.token_ids, request[1])
            assert hypothesis.score > -1e6


@given(SOURCES, st.lists(TOKENS, min_size=1, max_size=3).map(tuple))
def test_completion_is_chosen_by_its_probability(
    source: tuple[int, ...], prefix: tuple[int, ...]
) -> None:
    every = frozenset(range(3, VOCABULARY)) - {prefix[-1]}
    asked = DecodingOptions(
        beam_size=1,
        target_prefix=prefix,
        completions=(every,),
        max_decoding_length=len(prefix) + 1,
        min_decoding_length=0,
    )
    (found,) = decode_together([(source, asked)], LIMITS)
    log_probs = random_model(source, (BOS, *prefix[:-1]))
    log_probs[[SPECIAL_IDS.pad, BOS, EOS]] = -np.inf
    assert found.hypotheses[0].token_ids[len(prefix) - 1] == int(log_probs.argmax())
