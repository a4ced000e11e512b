"""Compares two-vocabulary networks with output bias, with and without shortlist, with PyTorch."""

from __future__ import annotations

import random
from collections.abc import Set
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.bundle.bundle import Bundle
from models.bundle.manifest import Precision
from models.bundle.shortlist import Shortlist
from models.bundle.tokenizer import SPECIAL_IDS
from models.export.session import GraphDecoder
from service.engine.scheduler import Scheduler, Sequence
from service.engine.types import Decoded, DecodingOptions, FinishReason
from service.runtime.backend import FloatArray
from service.runtime.onnx import OnnxBackend
from tests.engine.batch_runner import decode_arriving
from tests.engine.reference import log_softmax, reference_decode
from tests.support.networks import CONFIG, random_network, write_bundle
from tests.support.prefix_decoder import Attending

SOURCE_PIECES = 50
NETWORK = random_network(
    replace(
        CONFIG,
        source_vocabulary=SOURCE_PIECES,
        tying="none",
        output_bias=True,
        activation="silu",
        positions="sinusoidal_halves",
    )
)
SHORTLIST = Shortlist(
    always=np.array([1, 3, 5, 9, 11, 17], np.int32),
    offsets=np.arange(0, SOURCE_PIECES * 3 + 1, 3, dtype=np.int32),
    targets=np.random.default_rng(3).integers(4, 30, SOURCE_PIECES * 3, np.int32),
)
sources = st.lists(st.integers(4, SOURCE_PIECES - 1), min_size=1, max_size=10).map(
    lambda ids: (*ids, SPECIAL_IDS.eos)
)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    with torch.no_grad():
        NETWORK.generator.bias.copy_(torch.randn(CONFIG.target_vocabulary))
        # pad and bos, which the search never selects, have no probability, as in imported networks.
        NETWORK.generator.bias[[SPECIAL_IDS.pad, SPECIAL_IDS.bos]] = -1e4
    return write_bundle(NETWORK, tmp_path_factory.mktemp("bundles") / "two")


@pytest.fixture(scope="module")
def backends(bundle: Bundle) -> dict[tuple[Precision, bool], OnnxBackend]:
    precisions: tuple[Precision, ...] = ("fp32", "int8")
    return {
        (precision, restricted): OnnxBackend.load(
            bundle,
            precision,
            slots=4,
            rows_per_slot=3,
            threads=1,
            shortlist=SHORTLIST if restricted else None,
        )
        for precision in precisions
        for restricted in (False, True)
    }


class Int8LogProbs:
    """Log-probabilities from the exported graphs, one sentence and one row at a time."""

    def __init__(self, bundle: Bundle, source_ids: tuple[int, ...]) -> None:
        self._decoder = GraphDecoder(bundle.path, bundle.manifest.dimensions, "int8")
        self._source_ids = source_ids

    def __call__(self, prefix: tuple[int, ...]) -> FloatArray:
        self._decoder.start(self._source_ids)
        for token in (SPECIAL_IDS.bos, *prefix):
            [token_ids], [best] = self._decoder.extend([0], [token], CONFIG.target_vocabulary)
        log_probs = np.empty_like(best)
        log_probs[token_ids] = best
        return log_probs


def score_of(decoded: Decoded, model: Int8LogProbs, allowed: Set[int] | None) -> float:
    """Score per token of the best hypothesis by ``model``."""
    token_ids = decoded.hypotheses[0].token_ids
    if decoded.finish_reason is FinishReason.COMPLETE:
        token_ids = (*token_ids, SPECIAL_IDS.eos)
    total = 0.0
    for position, token in enumerate(token_ids):
        log_probs = model(token_ids[:position])
        if allowed is not None:
            log_probs[[other for other in range(len(log_probs)) if other not in allowed]] = -np.inf
        total += float(log_softmax(log_probs)[token])
    return total / len(token_ids)


@settings(max_examples=25)
@given(
    requests=st.lists(st.tuples(sources, st.integers(1, 3)), min_size=1, max_size=5),
    rng=st.randoms(),
    restricted=st.booleans(),
)
def test_sentences_translate_as_in_pytorch(
    bundle: Bundle,
    backends: dict[tuple[Precision, bool], OnnxBackend],
    requests: list[tuple[tuple[int, ...], int]],
    rng: random.Random,
    restricted: bool,
) -> None:
    wanted = [
        DecodingOptions(
            beam_size=width, length_penalty=1, min_decoding_length=0, max_decoding_length=12
        )
        for _, width in requests
    ]
    for precision in ("fp32", "int8"):
        backend = backends[precision, restricted]  # type: ignore[index]
        scheduler = Scheduler(backend.limits, SPECIAL_IDS, max_padded_tokens=20)
        arriving = [
            Sequence(i, source_ids, options)
            for i, ((source_ids, _), options) in enumerate(zip(requests, wanted, strict=True))
        ]
        results = decode_arriving(backend, scheduler, arriving, rng)
        for i, (source_ids, _) in enumerate(requests):
            allowed = set(SHORTLIST.ids_for(source_ids).tolist()) if restricted else None
            found = results[i].hypotheses[0].score
            if precision == "fp32":
                expected = reference_decode(
                    Attending(NETWORK, source_ids),
                    wanted[i],
                    eos=SPECIAL_IDS.eos,
                    unk=SPECIAL_IDS.unk,
                    allowed=allowed,
                )
                assert found == pytest.approx(expected.hypotheses[0].score, abs=1e-4)
            else:
                # Rounding may change the best hypothesis, so the one found is rescored. Attention
                # is summed in another order, which may move an activation to its next level.
                rated = score_of(results[i], Int8LogProbs(bundle, source_ids), allowed)
                assert found == pytest.approx(rated, abs=0.05)
