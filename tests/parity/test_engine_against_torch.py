"""Compares continuous batching on exported graphs with a reference beam search in PyTorch."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable, Iterator, Set
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.bundle.bundle import Bundle
from models.bundle.manifest import InvalidBundle, Precision
from models.bundle.shortlist import Shortlist
from models.bundle.tokenizer import SPECIAL_IDS
from models.export.session import GraphDecoder
from models.reference.beam import Decoder, Hypothesis, Searching, beam_search
from service.engine.scheduler import Scheduler, Sequence
from service.engine.types import Decoded, DecodingOptions, FinishReason
from service.runtime.backend import EncodeBatch, FloatArray, StepBatch
from service.runtime.memory import HostMemory, Memory
from service.runtime.onnx import OnnxBackend
from tests.engine.batch_runner import decode_arriving
from tests.engine.options import any_options
from tests.engine.reference import log_softmax, reference_decode
from tests.runtime.simulated_gpu import Runtime, SimulatedGpu, bind_by_value
from tests.support.networks import CONFIG, random_network, write_bundle
from tests.support.prefix_decoder import Attending, PrefixDecoder

SLOTS, ROWS = 4, 5
SCORE_TOLERANCE = 1e-4
NETWORK = random_network()

sources = st.lists(st.integers(4, 29), min_size=1, max_size=12).map(
    lambda ids: (*ids, SPECIAL_IDS.eos)
)
options = st.builds(
    DecodingOptions,
    beam_size=st.integers(1, ROWS),
    min_decoding_length=st.just(0),
    max_decoding_length=st.integers(1, 16),
    length_penalty=st.sampled_from([0.0, 0.6, 1.0]),
)
Request = tuple[tuple[int, ...], DecodingOptions]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return write_bundle(NETWORK, tmp_path_factory.mktemp("bundles") / "random")


@pytest.fixture(scope="module", params=["host", "gpu"])
def memories(request: pytest.FixtureRequest) -> Iterator[Callable[[], Memory]]:
    """The memory of the CPU, and that of a simulated GPU, which has inputs by value."""
    if request.param == "host":
        yield HostMemory
        return
    runtime = Runtime()
    with pytest.MonkeyPatch.context() as monkeypatch:
        bind_by_value(monkeypatch, runtime)
        yield lambda: SimulatedGpu(runtime)


@pytest.fixture(scope="module")
def backends(bundle: Bundle, memories: Callable[[], Memory]) -> dict[Precision, OnnxBackend]:
    """Shared by all examples, so that each starts with memory used by earlier ones."""
    return {
        precision: make_backend(bundle, precision, memories()) for precision in ("fp32", "int8")
    }


@pytest.fixture(scope="module")
def shortlisted(bundle: Bundle, memories: Callable[[], Memory]) -> OnnxBackend:
    return make_backend(bundle, "fp32", memories(), SHORTLIST)


def make_backend(
    bundle: Bundle,
    precision: Precision,
    memory: Memory | None = None,
    shortlist: Shortlist | None = None,
) -> OnnxBackend:
    return OnnxBackend.load(
        bundle,
        precision,
        slots=SLOTS,
        rows_per_slot=ROWS,
        threads=1,
        cache_bytes=1 << 24,
        memory=memory,
        shortlist=shortlist,
    )


SHORTLIST = Shortlist(
    always=np.array([2, 3, 5, 9, 11, 17], np.int32),
    offsets=np.arange(0, 31 * 3, 3, dtype=np.int32),
    targets=np.random.default_rng(3).integers(1, 30, 90, np.int32),
)


def search_alone(
    decoder: Decoder, source_ids: tuple[int, ...], wanted: DecodingOptions
) -> list[Hypothesis]:
    searching = Searching(SPECIAL_IDS, wanted.beam_size, wanted.length_penalty)
    return beam_search(decoder, source_ids, searching, wanted.max_decoding_length)


def decode_all(
    backend: OnnxBackend, requests: list[Request], rng: random.Random
) -> dict[int, Decoded]:
    """Decodes requests that arrive at random steps of continuous batching."""
    scheduler = Scheduler(backend.limits, SPECIAL_IDS, max_padded_tokens=20)
    arriving = [Sequence(i, *request) for i, request in enumerate(requests)]
    return decode_arriving(backend, scheduler, arriving, rng)


@settings(max_examples=20)
@given(st.lists(st.tuples(sources, options), min_size=1, max_size=9), st.randoms())
def test_fp32_translation_in_any_batch_equals_pytorch_on_the_sentence_alone(
    backends: dict[Precision, OnnxBackend], requests: list[Request], rng: random.Random
) -> None:
    results = decode_all(backends["fp32"], requests, rng)
    decoder = PrefixDecoder(NETWORK)
    for i, (source_ids, wanted) in enumerate(requests):
        expected = search_alone(decoder, source_ids, wanted)
        found = results[i].hypotheses[0]
        assert found.score == pytest.approx(expected[0].score, abs=SCORE_TOLERANCE)
        clear = len(expected) == 1 or expected[0].score - expected[1].score > SCORE_TOLERANCE
        if clear:
            assert found.token_ids == expected[0].token_ids


@settings(max_examples=20)
@given(
    requests=st.lists(st.tuples(sources, any_options(st.integers(4, 29))), min_size=1, max_size=6),
    rng=st.randoms(),
    restricted=st.booleans(),
)
def test_every_decoding_option_scores_as_the_reference_search_in_pytorch(
    backends: dict[Precision, OnnxBackend],
    shortlisted: OnnxBackend,
    requests: list[Request],
    rng: random.Random,
    restricted: bool,
) -> None:
    backend = shortlisted if restricted else backends["fp32"]
    results = decode_all(backend, requests, rng)
    for i, (source_ids, wanted) in enumerate(requests):
        allowed = set(SHORTLIST.ids_for(source_ids).tolist()) if restricted else None
        expected = reference_decode(
            Attending(NETWORK, source_ids),
            wanted,
            eos=SPECIAL_IDS.eos,
            unk=SPECIAL_IDS.unk,
            allowed=allowed,
            never={SPECIAL_IDS.pad, SPECIAL_IDS.bos},
        )
        found = results[i]
        if wanted.samples:
            # A draw at the border between two tokens may select either.
            continue
        assert [h.score for h in found.hypotheses] == pytest.approx(
            [h.score for h in expected.hypotheses], abs=SCORE_TOLERANCE
        )


@settings(max_examples=20)
@given(st.lists(st.tuples(sources, options), min_size=1, max_size=9), st.randoms())
def test_int8_scores_do_not_depend_on_batch_composition(
    bundle: Bundle,
    backends: dict[Precision, OnnxBackend],
    requests: list[Request],
    rng: random.Random,
) -> None:
    results = decode_all(backends["int8"], requests, rng)
    decoder = GraphDecoder(bundle.path, bundle.manifest.dimensions, "int8")
    for i, (source_ids, wanted) in enumerate(requests):
        expected = search_alone(decoder, source_ids, wanted)
        # Attention is summed in another order, which may move an activation to the next of its
        # 255 levels. This changes the score more than a neighbour in the batch would.
        assert results[i].hypotheses[0].score == pytest.approx(expected[0].score, abs=0.05)


def spoil(backend: OnnxBackend, slots: slice) -> None:
    """Fills the caches of slots with NaN, as if sentences with such values had had them."""
    for pool in (backend._own, backend._cross):
        pool.resize(16, 2)
        for _, address in pool.arrays():
            size = SLOTS * pool.heads * pool.length * pool.width
            whole = np.ctypeslib.as_array((ctypes.c_float * size).from_address(address))
            whole.reshape(SLOTS, -1)[slots] = float("nan")


def step(backend: OnnxBackend, tokens: list[int], position: int) -> FloatArray:
    """Log-probabilities after a step of one row for each sentence."""
    return backend.step(
        StepBatch(
            parents_BK=np.zeros((len(tokens), 1), np.int32),
            tokens_BK=np.array([[token] for token in tokens], np.int32),
            positions_B=np.full(len(tokens), position, np.int32),
            num_candidates=4,
        )
    ).log_probs_BKN


def test_nan_left_in_a_slot_does_not_reach_its_next_sentence(bundle: Bundle) -> None:
    backend = make_backend(bundle, "fp32")
    backend.encode(EncodeBatch(0, [(5, 6, 3), (7, 8, 9, 10, 3)]))
    spoil(backend, slice(1, SLOTS))
    backend.encode(EncodeBatch(1, [(7, 3)]))
    for position in range(3):
        assert np.isfinite(step(backend, [5, 6], position)).all()
    # Nor does it reach a sentence that is moved there.
    spoil(backend, slice(1))
    poisoned, healthy = np.isnan(step(backend, [5, 5], 3)).all(axis=(1, 2))
    assert poisoned and not healthy
    backend.move(1, 0)
    assert np.isfinite(step(backend, [5], 4)).all()


def test_graph_that_disagrees_with_the_manifest_raises_invalid_bundle(bundle: Bundle) -> None:
    deeper = bundle.manifest.dimensions.model_copy(
        update={"decoder_layers": CONFIG.decoder_layers + 1}
    )
    wrong = bundle.manifest.model_copy(update={"dimensions": deeper})
    with pytest.raises(InvalidBundle, match=r"cross_keys\.2"):
        make_backend(Bundle(bundle.path, wrong), "fp32")


SOURCE_PIECES = 50
TWO_VOCABULARIES = random_network(
    replace(
        CONFIG,
        source_vocabulary=SOURCE_PIECES,
        tying="none",
        output_bias=True,
        activation="silu",
        positions="sinusoidal_halves",
    )
)
WIDE_SHORTLIST = Shortlist(
    always=np.array([1, 3, 5, 9, 11, 17], np.int32),
    offsets=np.arange(0, SOURCE_PIECES * 3 + 1, 3, dtype=np.int32),
    targets=np.random.default_rng(3).integers(4, 30, SOURCE_PIECES * 3, np.int32),
)
wide_sources = st.lists(st.integers(4, SOURCE_PIECES - 1), min_size=1, max_size=10).map(
    lambda ids: (*ids, SPECIAL_IDS.eos)
)


@pytest.fixture(scope="module")
def wide_bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    with torch.no_grad():
        TWO_VOCABULARIES.generator.bias.copy_(torch.randn(CONFIG.target_vocabulary))
        # pad and bos, which the search never selects, have no probability, as in imported networks.
        TWO_VOCABULARIES.generator.bias[[SPECIAL_IDS.pad, SPECIAL_IDS.bos]] = -1e4
    return write_bundle(TWO_VOCABULARIES, tmp_path_factory.mktemp("bundles") / "two")


@pytest.fixture(scope="module")
def wide_backends(wide_bundle: Bundle) -> dict[tuple[Precision, bool], OnnxBackend]:
    precisions: tuple[Precision, ...] = ("fp32", "int8")
    return {
        (precision, restricted): make_backend(
            wide_bundle, precision, shortlist=WIDE_SHORTLIST if restricted else None
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
    requests=st.lists(
        st.tuples(
            wide_sources,
            st.builds(
                DecodingOptions,
                beam_size=st.integers(1, 3),
                length_penalty=st.just(1),
                min_decoding_length=st.just(0),
                max_decoding_length=st.just(12),
            ),
        ),
        min_size=1,
        max_size=5,
    ),
    rng=st.randoms(),
    restricted=st.booleans(),
)
def test_two_vocabularies_and_an_output_bias_translate_as_in_pytorch(
    wide_bundle: Bundle,
    wide_backends: dict[tuple[Precision, bool], OnnxBackend],
    requests: list[Request],
    rng: random.Random,
    restricted: bool,
) -> None:
    precise, rounded = (
        decode_all(wide_backends[precision, restricted], requests, rng)  # type: ignore[index]
        for precision in ("fp32", "int8")
    )
    for i, (source_ids, wanted) in enumerate(requests):
        allowed = set(WIDE_SHORTLIST.ids_for(source_ids).tolist()) if restricted else None
        expected = reference_decode(
            Attending(TWO_VOCABULARIES, source_ids),
            wanted,
            eos=SPECIAL_IDS.eos,
            unk=SPECIAL_IDS.unk,
            allowed=allowed,
        )
        best = expected.hypotheses[0].score
        assert precise[i].hypotheses[0].score == pytest.approx(best, abs=SCORE_TOLERANCE)
        # Rounding may change the best hypothesis, so the one found is rescored. Attention
        # is summed in another order, which may move an activation to its next level.
        rated = score_of(rounded[i], Int8LogProbs(wide_bundle, source_ids), allowed)
        assert rounded[i].hypotheses[0].score == pytest.approx(rated, abs=0.05)
