from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch.nn.utils.rnn import pad_sequence

from models.bundle.manifest import LengthNormalisation
from models.bundle.tokenizer import SPECIAL_IDS
from models.reference.beam import Hypothesis, Searching, beam_search, default_max_length
from models.transformer.transformer import Transformer
from service.engine.types import DecodingOptions
from tests.engine.reference import reference_decode
from tests.support.prefix_decoder import PrefixDecoder
from tests.support.tiny_training import VOCABULARY_SIZE, tiny_network
from training.search.batched import in_batches, search_together
from training.search.greedy import greedy

EOS = SPECIAL_IDS.eos
VOCABULARY = 7
Distribution = Callable[[tuple[int, ...]], NDArray[np.float32]]


class ScriptedDecoder:
    """A decoder with a scripted distribution by prefix; counts its steps."""

    def __init__(self, log_probs_of: Distribution) -> None:
        self._log_probs_of = log_probs_of

    def start(self, source_ids: Sequence[int]) -> None:
        self._prefixes: list[tuple[int, ...]] = [()]
        self.steps = 0

    def extend(
        self, parents: list[int], tokens: list[int], count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        self.steps += 1
        self._prefixes = [
            (*self._prefixes[parent], token) for parent, token in zip(parents, tokens, strict=True)
        ]
        # The prefix without bos.
        table = np.stack([self._log_probs_of(prefix[1:]) for prefix in self._prefixes])
        best = np.argsort(-table, axis=1, kind="stable")[:, :count]
        return best, np.take_along_axis(table, best, axis=1)


def random_distribution(seed: int) -> Distribution:
    def log_probs_of(prefix: tuple[int, ...]) -> NDArray[np.float32]:
        rng = np.random.default_rng((seed, *prefix))
        logits = rng.normal(size=VOCABULARY) * 2
        log_probs: NDArray[np.float32] = (logits - np.logaddexp.reduce(logits)).astype(np.float32)
        return log_probs

    return log_probs_of


def first(probabilities: dict[int, float]) -> Distribution:
    """Probabilities of the first token; eos follows."""

    def log_probs_of(prefix: tuple[int, ...]) -> NDArray[np.float32]:
        table = np.full(VOCABULARY, 1e-9)
        for token, probability in ({EOS: 1.0} if prefix else probabilities).items():
            table[token] = probability
        log_probs: NDArray[np.float32] = np.log(table).astype(np.float32)
        return log_probs

    return log_probs_of


def search(
    decoder: ScriptedDecoder | PrefixDecoder,
    source: Sequence[int] = (4, 5, EOS),
    *,
    beam_size: int = 2,
    length_penalty: float = 1.0,
    max_length: int = 12,
    length_normalisation: LengthNormalisation = "power",
    watch: Callable[[float], None] | None = None,
) -> list[Hypothesis]:
    searching = Searching(SPECIAL_IDS, beam_size, length_penalty, length_normalisation)
    return beam_search(decoder, source, searching, max_length, watch)


@settings(max_examples=150)
@given(
    seed=st.integers(0, 2**32),
    beam_size=st.integers(1, 5),
    length_penalty=st.sampled_from([0.0, 0.6, 1.0, 1.5]),
    length_normalisation=st.sampled_from(["power", "gnmt"]),
    max_length=st.integers(1, 8),
)
def test_hypotheses_are_those_of_the_reference_that_matches_ctranslate2(
    seed: int,
    beam_size: int,
    length_penalty: float,
    length_normalisation: LengthNormalisation,
    max_length: int,
) -> None:
    distribution = random_distribution(seed)
    options = DecodingOptions(
        beam_size=beam_size,
        num_hypotheses=beam_size if length_penalty else 1,
        length_penalty=length_penalty,
        length_normalisation=length_normalisation,
        min_decoding_length=1,
        max_decoding_length=max_length,
    )
    expected = reference_decode(
        lambda prefix: (distribution(prefix), np.zeros(1, np.float32)),
        options,
        eos=EOS,
        unk=SPECIAL_IDS.unk,
        never={SPECIAL_IDS.pad, SPECIAL_IDS.bos},
    ).hypotheses
    found = search(
        ScriptedDecoder(distribution),
        beam_size=beam_size,
        length_penalty=length_penalty,
        length_normalisation=length_normalisation,
        max_length=max_length,
    )[: len(expected)]
    assert [h.token_ids for h in found] == [h.token_ids for h in expected]
    assert [h.score for h in found] == pytest.approx([h.score for h in expected], rel=1e-5)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    beam_size=st.integers(1, 4),
    length_penalty=st.sampled_from([0.0, 1.0]),
)
def test_rounding_within_the_margin_changes_no_hypothesis(
    seed: int, beam_size: int, length_penalty: float
) -> None:
    steps, margins = 12, list[float]()
    exact = random_distribution(seed)

    def rounded(prefix: tuple[int, ...]) -> NDArray[np.float32]:
        noise = np.random.default_rng((seed + 1, *prefix)).uniform(-1, 1, VOCABULARY)
        # A total is the sum of at most ``steps`` log-probabilities.
        largest = min(margins, default=0.0) / (2 * steps)
        perturbed: NDArray[np.float32] = exact(prefix) + (0.99 * largest * noise).astype(np.float32)
        return perturbed

    options: dict[str, Any] = {"beam_size": beam_size, "length_penalty": length_penalty}
    plain = ScriptedDecoder(exact)
    expected = search(plain, **options, max_length=steps, watch=margins.append)
    assume(plain.steps < steps and math.isfinite(min(margins)))
    found = search(ScriptedDecoder(rounded), **options, max_length=steps)
    assert {h.token_ids for h in found} == {h.token_ids for h in expected}


def test_margin_of_a_step_is_the_least_gap_that_decides_what_goes_on() -> None:
    margins: list[float] = []
    # The second or the third word continues beside the first.
    close = first({4: 0.4, 5: 0.30, 6: 0.29})
    search(ScriptedDecoder(close), watch=margins.append)
    assert min(margins) == pytest.approx(math.log(0.30 / 0.29), abs=1e-5)
    margins.clear()
    clear = first({4: 0.4, 5: 0.395, 6: 0.1})
    search(ScriptedDecoder(clear), watch=margins.append)
    # The first and the second word continue, whichever is first.
    assert min(margins) == pytest.approx(math.log(0.395 / 0.1), abs=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_a_beam_of_one_is_greedy(seed: int) -> None:
    network = tiny_network(seed)
    sources = [(4, 5, 6, EOS), (7, EOS), (8, 9, 10, 11, 12, EOS)]
    source_BS = pad_sequence(list(map(torch.tensor, sources)), batch_first=True)
    together = greedy(network, source_BS, SPECIAL_IDS, max_length=10)
    for source, expected in zip(sources, together, strict=True):
        best = search(PrefixDecoder(network), source, beam_size=1, max_length=10)
        assert [h.token_ids for h in best] == [expected]


def test_greedy_search_stops_when_all_rows_have_ended() -> None:
    network = tiny_network(1, tying="none", norm="before")
    norm, generator = network.decoder_norm, network.generator
    assert isinstance(norm, torch.nn.LayerNorm)
    with torch.no_grad():
        # All decoder outputs are equal, and eos has the largest logit.
        for weight, value in ((norm.weight, 0.0), (norm.bias, 1.0), (generator.weight, 0.0)):
            weight.fill_(value)
        generator.weight[EOS] = 1.0
    sources = torch.tensor([[4, EOS], [5, EOS]])
    assert greedy(network, sources, SPECIAL_IDS, max_length=16) == [(SPECIAL_IDS.unk,)] * 2


@pytest.mark.parametrize(
    ("source", "limit", "longest"), [(1, 512, 23), (10, 512, 50), (10, 30, 30)]
)
def test_default_max_length(source: int, limit: int, longest: int) -> None:
    assert default_max_length(source, limit) == longest


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
