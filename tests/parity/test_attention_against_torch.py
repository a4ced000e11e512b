"""Compares attention maps and log-probabilities of the exported graph with PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.bundle.bundle import Bundle
from models.bundle.tokenizer import SPECIAL_IDS
from service.runtime.attention import AttentionGraph
from tests.support.networks import CONFIG, random_network, write_bundle

TOLERANCE = 1e-4
NETWORK = random_network()
LONGEST = CONFIG.max_length - 1

tokens = st.integers(4, 29)
sources = st.lists(tokens, max_size=LONGEST).map(lambda ids: (*ids, SPECIAL_IDS.eos))
targets = st.lists(tokens, max_size=LONGEST).map(tuple)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return write_bundle(NETWORK, tmp_path_factory.mktemp("bundles") / "random")


@pytest.fixture(scope="module")
def graph(bundle: Bundle) -> AttentionGraph:
    return AttentionGraph.load(bundle, "fp32")


@settings(max_examples=60)
@given(source_ids=sources, target_ids=targets)
def test_attention_maps_and_distributions_equal_pytorch(
    graph: AttentionGraph, source_ids: tuple[int, ...], target_ids: tuple[int, ...]
) -> None:
    found = graph.run(source_ids, target_ids)
    with torch.inference_mode():
        logits_BTV, maps = NETWORK.attention_maps(
            torch.tensor([source_ids]), torch.tensor([(SPECIAL_IDS.bos, *target_ids)])
        )
    log_probs_TV = logits_BTV[0].log_softmax(-1)
    expected_T = log_probs_TV[range(len(target_ids) + 1), (*target_ids, SPECIAL_IDS.eos)]
    np.testing.assert_allclose(found.log_probs_T, expected_T.numpy(), atol=TOLERANCE)
    assert found.entropies_T is not None
    entropies_T = torch.distributions.Categorical(logits=logits_BTV[0]).entropy()
    np.testing.assert_allclose(found.entropies_T, entropies_T.numpy(), atol=TOLERANCE)
    for of_kind, expected in (
        (found.encoder_LHSS, maps.encoder),
        (found.decoder_LHTT, maps.decoder),
        (found.cross_LHTS, maps.cross),
    ):
        stacked_LHQK = torch.stack(expected, 1)[0].numpy()
        assert of_kind.shape == stacked_LHQK.shape
        np.testing.assert_allclose(of_kind, stacked_LHQK, atol=TOLERANCE)


@settings(max_examples=20)
@given(source_ids=sources, target_ids=targets, padding=st.integers(1, 4))
def test_padding_gets_no_attention(
    graph: AttentionGraph,
    source_ids: tuple[int, ...],
    target_ids: tuple[int, ...],
    padding: int,
) -> None:
    """The reader never pads, but other users of the graph may run it on a padded batch."""
    pad = (SPECIAL_IDS.pad,) * padding
    source_ids, target_ids = source_ids[-10:], target_ids[:10]
    session = graph._session
    assert session is not None
    feeds = {
        "source_ids": np.array([(*source_ids, *pad)], np.int32),
        "target_input_ids": np.array([(SPECIAL_IDS.bos, *target_ids)], np.int32),
        "target_output_ids": np.array([(*target_ids, SPECIAL_IDS.eos)], np.int32),
    }
    encoder, cross = session.run(["encoder_attention", "cross_attention"], feeds)
    real = len(source_ids)
    assert not encoder[..., real:].any()
    assert not cross[..., real:].any()
    alone = graph.run(source_ids, target_ids)
    np.testing.assert_allclose(cross[0, ..., :real], alone.cross_LHTS, atol=TOLERANCE)
