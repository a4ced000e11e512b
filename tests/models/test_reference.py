from __future__ import annotations

import typing

import numpy as np
import pytest
import torch

from models.bundle.tokenizer import SPECIAL_IDS
from models.reference.beam import Searching
from models.reference.decoding import ReferenceDecoder, greedy_all
from models.reference.transformer import ReferenceTransformer, sinusoids, softmax
from models.transformer import layers
from models.transformer.config import Positions
from tests.support.networks import CONFIG, NETWORKS, random_network
from tests.support.prefix_decoder import PrefixDecoder
from training.export.conversion import numpy_network

SOURCE, TARGET = (4, 5, 29, 7, 3), (2, 8, 29, 9, 9, 3)
SOURCES = [(4, 5, 6, 7, 3), (29, 8, 3), (9, 9, 10, 11, 12, 13, 14, 3), (20, 3)]
TOLERANCE = 1e-4


@pytest.mark.parametrize("name", NETWORKS)
def test_logits_and_attention_maps_equal_those_of_pytorch(name: str) -> None:
    network = random_network(NETWORKS[name])
    logits_TV, maps = numpy_network(network).attention_maps(SOURCE, TARGET)
    with torch.inference_mode():
        expected_BTV, expected = network.attention_maps(
            torch.tensor([SOURCE]), torch.tensor([TARGET])
        )
    np.testing.assert_allclose(logits_TV, expected_BTV[0], atol=TOLERANCE)
    for kind in ("encoder", "decoder", "cross"):
        for found, wanted in zip(getattr(maps, kind), getattr(expected, kind), strict=True):
            np.testing.assert_allclose(found, wanted[0], atol=TOLERANCE)


@pytest.mark.parametrize("name", ["usual", "as NLLB", "another of everything"])
def test_cached_steps_equal_the_teacher_forced_pass(name: str) -> None:
    network = numpy_network(random_network(NETWORKS[name]))
    source = network.source_keys_values(network.encode(SOURCE))
    expected_TV = network.project(network.decode(source, TARGET))
    past: list[typing.Any] = [None] * network.config.decoder_layers
    for position, token in enumerate(TARGET):
        logits_RV, past = network.step(np.array([token]), position, source, past)
        np.testing.assert_allclose(logits_RV[0], expected_TV[position], atol=TOLERANCE)


def test_beam_search_finds_the_hypotheses_of_pytorch() -> None:
    network = random_network()
    decoders = ReferenceDecoder(numpy_network(network)), PrefixDecoder(network)
    searching = Searching(SPECIAL_IDS, beam_size=4, length_penalty=1.0)
    for source in SOURCES:
        found, expected = (searching.best(decoder, source, 20) for decoder in decoders)
        assert [each.token_ids for each in found] == [each.token_ids for each in expected]


@pytest.mark.parametrize("limit", [5, CONFIG.max_length])
@pytest.mark.parametrize("prefix", [(), (7, 9)])
def test_greedy_search_of_a_padded_batch_equals_a_beam_of_one(
    prefix: tuple[int, ...], limit: int
) -> None:
    network = numpy_network(random_network())
    searching = Searching(SPECIAL_IDS, 1, 1.0, target_prefix=prefix)
    decoder = ReferenceDecoder(network)
    found = dict(greedy_all(network, SOURCES, SPECIAL_IDS, prefix, limit))
    assert len(found) == len(SOURCES)
    for place, source in enumerate(SOURCES):
        (alone, *_) = searching.best(decoder, source, limit)
        assert len(found[place]) <= limit - len(prefix)
        assert found[place][: len(alone.token_ids)] == alone.token_ids


@pytest.mark.parametrize("positions", [p for p in typing.get_args(Positions) if p != "learned"])
def test_sinusoids_equal_those_of_pytorch(positions: Positions) -> None:
    expected = layers.sinusoids(64, 32, positions, 2)
    np.testing.assert_allclose(sinusoids(64, 32, positions, 2), expected, atol=1e-5)


def test_softmax_of_extreme_scores_is_finite() -> None:
    scores = np.array([[1e30, 0.0, -np.inf]], np.float32)
    assert softmax(scores).tolist() == [[1.0, 0.0, 0.0]]


def test_missing_and_misshapen_weights_and_too_late_positions_are_named() -> None:
    network = numpy_network(random_network())
    with pytest.raises(ValueError, match="position 25"):
        network.encode([4] * 25)
    weights = dict(network.weights)
    weights["generator.weight"] = weights["generator.weight"][1:]
    del weights["decoder.0.cross.key.bias"]
    with pytest.raises(ValueError, match=r"decoder\.0\.cross\.key\.bias, generator\.weight"):
        ReferenceTransformer(CONFIG, weights)
