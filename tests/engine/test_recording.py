"""Tests of recorded searches: they equal the unrecorded ones, and their trees are consistent."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine.beam_scheduler import BeamScheduler
from service.engine.scheduler import Scheduler, Sequence
from service.engine.search_tree import ROOT, RankedCandidate, SearchTree
from service.engine.types import Decoded, DecodingOptions, FinishReason, WordPieces
from service.runtime.backend import Limits
from tests.engine.batch_runner import decode_arriving
from tests.engine.options import any_options
from tests.engine.toy import (
    EOS,
    SPECIAL_IDS,
    VOCABULARY,
    random_attention,
    random_model,
    undecided_model,
)
from tests.support.toy import Script, ScriptedBackend

LIMITS = Limits(slots=3, rows_per_slot=8, source_length=8, target_length=16)
TOKENS = st.integers(3, VOCABULARY - 1)
sources = st.lists(TOKENS, min_size=1, max_size=8).map(tuple)

Request = tuple[tuple[int, ...], DecodingOptions]


@st.composite
def beams(draw: st.DrawFn) -> DecodingOptions:
    """Beam searches of every usual width, with prefixes, penalties and several hypotheses."""
    beam_size = draw(st.sampled_from([1, 2, 4, 5, 8]))
    prefix = draw(st.just(()) | st.lists(TOKENS, max_size=3).map(tuple))
    return DecodingOptions(
        beam_size=beam_size,
        num_hypotheses=draw(st.integers(1, beam_size)),
        length_penalty=draw(st.sampled_from([0.0, 0.6, 1.0])),
        coverage_penalty=draw(st.sampled_from([0.0, 0.0, 0.4])),
        target_prefix=prefix,
        forced_prefix_length=draw(st.integers(0, len(prefix))),
        prefix_bias_beta=draw(st.sampled_from([0.0, 0.0, 0.5])),
        min_decoding_length=draw(st.integers(0, 2)),
        max_decoding_length=draw(st.integers(4, 12)),
        return_scores=draw(st.booleans()),
        all_finished=draw(st.booleans()),
    )


def decode(model: Script, requests: list[Request], rng: random.Random) -> dict[int, Decoded]:
    scheduler = Scheduler(LIMITS, SPECIAL_IDS, max_padded_tokens=30)
    arriving = [Sequence(number, *request) for number, request in enumerate(requests)]
    return decode_arriving(
        ScriptedBackend(model, LIMITS, random_attention), scheduler, arriving, rng
    )


def candidates_of(tree: SearchTree) -> list[RankedCandidate]:
    return [each for step in tree.steps for each in step]


@pytest.mark.parametrize("model", [random_model, undecided_model])
@settings(max_examples=60, deadline=None)
@given(data=st.data(), rng=st.randoms())
def test_recorded_search_finds_what_the_unrecorded_one_finds(
    model: Script, data: st.DataObject, rng: random.Random
) -> None:
    options = beams() | any_options(TOKENS)
    requests = data.draw(st.lists(st.tuples(sources, options), min_size=1, max_size=6))
    recorded = data.draw(st.lists(st.booleans(), min_size=len(requests), max_size=len(requests)))
    usual = decode(model, requests, rng)
    recording = [
        (source, replace(asked, recorded=wanted))
        for (source, asked), wanted in zip(requests, recorded, strict=True)
    ]
    found = decode(model, recording, rng)
    for number, wanted in enumerate(recorded):
        mine, expected = found[number], usual[number]
        assert [h.token_ids for h in mine.hypotheses] == [h.token_ids for h in expected.hypotheses]
        np.testing.assert_allclose(
            [h.score for h in mine.hypotheses],
            # Without scores, greedy search computes none.
            [
                theirs.score if not np.isnan(theirs.score) else own.score
                for own, theirs in zip(mine.hypotheses, expected.hypotheses, strict=True)
            ],
            atol=1e-5,
        )
        assert mine.finish_reason is expected.finish_reason
        assert (mine.tree is not None) is wanted
        if mine.tree is not None:
            check(mine.tree, mine, requests[number][1])


def check(tree: SearchTree, decoded: Decoded, options: DecodingOptions) -> None:
    """The tree is consistent, and its leaves are the hypotheses."""
    every = candidates_of(tree)
    assert [each.id for each in every] == list(range(1, len(every) + 1))
    assert len(tree.steps) <= options.max_decoding_length
    rows = {ROOT: 0.0}
    for step in tree.steps:
        assert 1 <= len(step) <= max(options.ranks, options.rows)
        # Only rows that the previous step has kept have candidates, and each has a token once.
        assert all(each.parent in rows for each in step)
        if not options.independent:
            assert len({(each.parent, each.token) for each in step}) == len(step)
        forced = step[0].log_probability == 0 and len(step) == 1
        for each in step:
            assert each.sum == pytest.approx(
                0.0 if forced else rows[each.parent] + each.log_probability, abs=1e-5
            )
        if not options.independent:
            assert [each.sum for each in step] == sorted((c.sum for c in step), reverse=True)
        rows = {each.id: each.sum for each in step if each.fate == "kept"}
        assert len(rows) <= options.rows
    if tree.leaves:
        best = max(tree.leaves, key=lambda leaf: leaf.score)
        assert best.score == pytest.approx(decoded.hypotheses[0].score, abs=1e-5)
    leaves = [ids_of(tree, leaf) for leaf in tree.leaves] or [()]
    for hypothesis in decoded.hypotheses:
        assert hypothesis.token_ids in leaves


def ids_of(tree: SearchTree, leaf: RankedCandidate) -> tuple[int, ...]:
    tokens = tree.token_ids(leaf)
    return tokens[:-1] if tokens[-1] == EOS else tokens


@settings(max_examples=60, deadline=None)
@given(source=sources, beam_size=st.sampled_from([1, 2, 4, 5, 8]), penalty=st.sampled_from([0, 1]))
def test_log_probabilities_and_scores_are_those_of_the_model(
    source: tuple[int, ...], beam_size: int, penalty: int
) -> None:
    options = DecodingOptions(
        beam_size=beam_size,
        length_penalty=penalty,
        min_decoding_length=0,
        max_decoding_length=10,
        recorded=True,
    )
    tree = decode(random_model, [(source, options)], random.Random(1))[0].tree
    assert tree is not None
    for each in candidates_of(tree):
        tokens = (SPECIAL_IDS.bos, *tree.token_ids(each))
        log_probs = [
            random_model(source, tokens[:place])[tokens[place]] for place in range(1, len(tokens))
        ]
        assert each.log_probability == pytest.approx(log_probs[-1], abs=1e-5)
        assert each.sum == pytest.approx(sum(log_probs), abs=1e-5)
        expected = sum(log_probs) / (len(log_probs) if penalty else 1)
        assert each.score == pytest.approx(expected, abs=1e-5)


def favouring_an_early_end(source: tuple[int, ...], prefix: tuple[int, ...]) -> np.ndarray:
    logits = np.full(VOCABULARY, -30.0, np.float32)
    logits[[4, 5, EOS, 6]] = [3.0, 2.0, 1.0, 0.0]
    return logits - np.logaddexp.reduce(logits)


def test_fates_of_the_candidates_of_a_step() -> None:
    options = DecodingOptions(
        beam_size=2, min_decoding_length=0, max_decoding_length=2, recorded=True
    )
    decoded = decode(favouring_an_early_end, [((4, EOS), options)], random.Random(1))[0]
    assert decoded.tree is not None
    first, last = decoded.tree.steps
    # An ending below the beam is dropped. The last step ends every candidate within the beam.
    assert [(c.token, c.fate) for c in first] == [
        (4, "kept"),
        (5, "kept"),
        (EOS, "dropped"),
        (6, "pruned"),
    ]
    assert [c.fate for c in last] == ["finished", "finished", "pruned", "dropped"]
    assert decoded.finish_reason is FinishReason.LENGTH


def test_hypothesis_without_an_allowed_next_token_ends_with_a_kept_candidate() -> None:
    options = DecodingOptions(
        beam_size=1,
        no_repeat_ngram_size=1,
        disable_unk=True,
        suppress_sequences=((EOS,),),
        min_decoding_length=0,
        max_decoding_length=10,
        recorded=True,
    )
    decoded = decode(random_model, [((4, 5, 6, 7), options)], random.Random(1))[0]
    assert decoded.tree is not None
    (leaf,) = decoded.tree.leaves
    assert leaf.fate == "kept"
    assert decoded.tree.token_ids(leaf) == decoded.hypotheses[0].token_ids


def test_device_does_not_accept_a_recorded_search() -> None:
    scheduler = BeamScheduler(LIMITS, SPECIAL_IDS)
    options = DecodingOptions(beam_size=4)
    assert scheduler.accepts(options)
    assert not scheduler.accepts(replace(options, recorded=True))


def test_search_for_alternative_words_is_not_recorded() -> None:
    words = WordPieces(frozenset({4}), frozenset())
    with pytest.raises(ValueError, match="is not recorded"):
        DecodingOptions(alternative_words=words, length_penalty=0.0, recorded=True)
