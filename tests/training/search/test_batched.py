from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.bundle.manifest import LengthNormalisation
from models.bundle.tokenizer import SPECIAL_IDS
from models.reference.beam import Hypothesis, Searching
from models.transformer.transformer import Transformer
from tests.support.prefix_decoder import PrefixDecoder
from tests.support.tiny_training import VOCABULARY_SIZE, tiny_network
from training.search.batched import in_batches, search_all, search_together

NETWORKS = [tiny_network(seed, norm="before" if seed % 2 else "after") for seed in range(4)]
LIMIT = 9
CLOSE = 1e-4

sources = st.lists(st.integers(4, VOCABULARY_SIZE - 1), max_size=9).map(
    lambda ids: (*ids, SPECIAL_IDS.eos)
)


def undecided(hypotheses: list[Hypothesis]) -> bool:
    """Whether scores are so close that rounding may change the order."""
    return any(one.score - other.score < CLOSE for one, other in itertools.pairwise(hypotheses))


@settings(max_examples=20)
@given(
    network=st.sampled_from(NETWORKS),
    together=st.lists(sources, min_size=1, max_size=5),
    beam_size=st.integers(1, 5),
    length_penalty=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
    length_normalisation=st.sampled_from(["power", "gnmt"]),
    target_prefix=st.sampled_from([(), (5,), (6, 4)]),
)
def test_batched_search_equals_the_search_of_each_sentence(
    network: Transformer,
    together: list[tuple[int, ...]],
    beam_size: int,
    length_penalty: float,
    length_normalisation: LengthNormalisation,
    target_prefix: tuple[int, ...],
) -> None:
    searching = Searching(
        SPECIAL_IDS, beam_size, length_penalty, length_normalisation, target_prefix
    )
    found = search_together(network, together, searching, LIMIT)
    decoder = PrefixDecoder(network)
    for source, ours in zip(together, found, strict=True):
        expected = searching.best(decoder, source, LIMIT)
        assert [h.score for h in ours] == pytest.approx([h.score for h in expected], abs=CLOSE)
        if not undecided(expected):
            assert [h.token_ids for h in ours] == [h.token_ids for h in expected]


def test_batch_size_does_not_change_hypotheses() -> None:
    texts = [(*range(4, 5 + i % 9), SPECIAL_IDS.eos) for i in range(20)]
    searching = Searching(SPECIAL_IDS, 3, 1.0)
    whole = dict(search_all(NETWORKS[0], texts, searching, LIMIT))
    parts = dict(search_all(NETWORKS[0], texts, searching, LIMIT, tokens=40))
    assert sorted(whole) == sorted(parts) == list(range(20))
    for place in whole:
        assert whole[place][0].token_ids == parts[place][0].token_ids


@given(
    lengths=st.lists(st.integers(1, 50), max_size=40),
    beam_size=st.integers(1, 6),
    tokens=st.integers(1, 900),
)
def test_batches_cover_all_sentences_longest_first_within_budget(
    lengths: list[int], beam_size: int, tokens: int
) -> None:
    batches = list(in_batches(lengths, beam_size, tokens))
    assert sorted(itertools.chain(*batches)) == list(range(len(lengths)))
    ordered = [lengths[place] for place in itertools.chain(*batches)]
    assert ordered == sorted(ordered, reverse=True)
    for batch in batches:
        padded = len(batch) * beam_size * max(lengths[place] for place in batch)
        assert padded <= tokens or len(batch) == 1


def test_hypotheses_never_contain_padding_or_bos() -> None:
    """Even if the network assigns them a high probability."""
    network = tiny_network(2, tying="none")
    never = {SPECIAL_IDS.pad, SPECIAL_IDS.bos}
    before = search_together(network, [(4, 5, SPECIAL_IDS.eos)], Searching(SPECIAL_IDS, 4, 1.0), 9)
    for token in never:
        network.generator.weight.data[token] *= 50
    for beam_size in (1, 4):
        searching = Searching(SPECIAL_IDS, beam_size, 1.0)
        found = search_together(network, [(4, 5, SPECIAL_IDS.eos)], searching, 9)[0]
        assert found and all(never.isdisjoint(h.token_ids) for h in (*found, *before[0]))
