"""Compares continuous batching on exported graphs with a reference beam search in PyTorch."""

from __future__ import annotations

import asyncio
import ctypes
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.bundle.bundle import Bundle
from models.bundle.manifest import InvalidBundle, Precision
from models.bundle.shortlist import Shortlist
from models.bundle.tokenizer import SPECIAL_IDS
from models.export.session import GraphDecoder
from models.reference.beam import Decoder, Hypothesis, Searching, beam_search
from models.transformer.transformer import Transformer
from service.engine.engine import Engine
from service.engine.iteration import Iteration
from service.engine.scheduler import Scheduler, Sequence
from service.engine.types import Decoded, DecodingOptions
from service.runtime.backend import EncodeBatch, FloatArray, StepBatch
from service.runtime.memory import HostMemory, Memory
from service.runtime.onnx import OnnxBackend
from tests.engine.batch_runner import decode_arriving
from tests.engine.options import any_options
from tests.engine.reference import reference_decode
from tests.runtime.simulated_gpu import Runtime, SimulatedGpu, bind_by_value
from tests.support.networks import CONFIG, NETWORKS, random_network, write_bundle
from tests.support.prefix_decoder import Attending, PrefixDecoder

SLOTS, ROWS = 4, 5
SCORE_TOLERANCE = 1e-4

sources = st.lists(st.integers(4, 29), min_size=1, max_size=12).map(
    lambda ids: (*ids, SPECIAL_IDS.eos)
)
options = st.builds(
    DecodingOptions,
    beam_size=st.integers(1, ROWS),
    max_decoding_length=st.integers(1, 16),
    length_penalty=st.sampled_from([0.0, 0.6, 1.0]),
)
Request = tuple[tuple[int, ...], DecodingOptions]


@pytest.fixture(scope="module", params=["usual", "ssru"])
def network(request: pytest.FixtureRequest) -> Transformer:
    return random_network(NETWORKS[request.param])


@pytest.fixture(scope="module")
def bundle(network: Transformer, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return write_bundle(network, tmp_path_factory.mktemp("bundles") / "random")


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
    cache_bytes: int = 1 << 24,
) -> OnnxBackend:
    return OnnxBackend.load(
        bundle,
        precision,
        slots=SLOTS,
        rows_per_slot=ROWS,
        threads=1,
        cache_bytes=cache_bytes,
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
    network: Transformer,
    backends: dict[Precision, OnnxBackend],
    requests: list[Request],
    rng: random.Random,
) -> None:
    results = decode_all(backends["fp32"], requests, rng)
    decoder = PrefixDecoder(network)
    for i, (source_ids, wanted) in enumerate(requests):
        expected = search_alone(decoder, source_ids, wanted)
        found = results[i].hypotheses[0]
        assert found.score == pytest.approx(expected[0].score, abs=SCORE_TOLERANCE)
        clear = len(expected) == 1 or expected[0].score - expected[1].score > SCORE_TOLERANCE
        if clear:
            assert found.token_ids == expected[0].token_ids


@pytest.mark.parametrize("share", [60, 80])
async def test_sentences_that_fill_the_memory_alone_are_translated(
    bundle: Bundle, share: int
) -> None:
    wanted = DecodingOptions(beam_size=ROWS, max_decoding_length=24, min_decoding_length=20)
    requests = [((*range(4, 4 + length), SPECIAL_IDS.eos), wanted) for length in range(2, 12)]

    async def decoded(cache_bytes: int) -> tuple[list[Decoded], int]:
        backend = make_backend(bundle, "fp32", cache_bytes=cache_bytes)
        most = 0

        def observe(iteration: Iteration) -> None:
            nonlocal most
            most = max(most, iteration.cache.taken)

        engine = Engine(backend, Scheduler(backend.limits, SPECIAL_IDS), observe)
        await engine.start()
        found = await asyncio.gather(*(engine.decode(*each) for each in requests))
        await engine.close()
        return found, most

    expected, taken = await decoded(1 << 24)
    found, fewer = await decoded(taken * share // 100)
    assert fewer < taken
    for here, there in zip(found, expected, strict=True):
        assert here.hypotheses[0].score == pytest.approx(there.hypotheses[0].score, abs=1e-4)


@settings(max_examples=20)
@given(
    requests=st.lists(st.tuples(sources, any_options(st.integers(4, 29))), min_size=1, max_size=6),
    rng=st.randoms(),
    restricted=st.booleans(),
)
def test_every_decoding_option_scores_as_the_reference_search_in_pytorch(
    network: Transformer,
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
            Attending(network, source_ids),
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
        if not pool.states:
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


def test_sentence_moved_into_a_slot_with_nan_stays_finite(bundle: Bundle) -> None:
    backend = make_backend(bundle, "fp32")
    backend.encode(EncodeBatch(0, [(7, 8, 9, 10, 11, 3), (5, 6, 3)]))
    spoil(backend, slice(1))
    poisoned, healthy = np.isnan(step(backend, [5, 5], 0)).all(axis=(1, 2))
    assert poisoned and not healthy
    backend.move(1, 0)
    assert np.isfinite(step(backend, [5], 1)).all()


def test_graph_that_disagrees_with_the_manifest_raises_invalid_bundle(
    bundle: Bundle, tmp_path: Path
) -> None:
    shape = bundle.manifest.dimensions
    wrong = bundle.manifest.model_copy(
        update={
            "dimensions": shape.model_copy(update={"decoder_layers": CONFIG.decoder_layers + 1})
        }
    )
    with pytest.raises(InvalidBundle, match=r"output cross_keys\.2 is missing"):
        make_backend(Bundle(bundle.path, wrong), "fp32")
