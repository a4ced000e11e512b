"""Beam searches on the device against ``Search`` with the step graph: token for token, in fp32.

The records of steps are read one step late, sentences arrive between launches, and an ended
sentence computes until the host has noticed.
"""

from __future__ import annotations

import ctypes
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from models.bundle.bundle import Bundle
from models.bundle.tokenizer import SPECIAL_IDS
from models.export.resident import refill_tables
from service.engine.beam_scheduler import BeamScheduler
from service.engine.errors import BackendFailed
from service.engine.scheduler import Scheduler, Sequence
from service.engine.types import Decoded, DecodingOptions
from service.runtime.backend import Limits
from service.runtime.memory import Memory
from service.runtime.onnx import OnnxBackend
from service.runtime.resident import ResidentBackend
from tests.engine.batch_runner import decode_arriving
from tests.runtime.simulated_gpu import Runtime, SimulatedGpu, bind_by_value
from tests.support.networks import CONFIG, random_network, write_bundle

BEAMS = (1, 2, 4, 5, 8)
SLOTS = 3
SCORE_TOLERANCE = 1e-4

NETWORKS = {
    "norm after": random_network,
    "norm before, nothing tied": lambda: random_network(
        replace(CONFIG, norm="before", tying="none"), seed=4
    ),
    "learned positions, output bias": lambda: random_network(
        replace(CONFIG, positions="learned", output_bias=True, tying="decoder"), seed=5
    ),
    "ssru": lambda: random_network(
        replace(CONFIG, decoder="ssru", output_bias=True, tying="decoder"), seed=6
    ),
}

Requests = list[tuple[tuple[int, ...], DecodingOptions]]


class Model:
    """A network as a bundle for each widest beam."""

    def __init__(self, network: torch.nn.Module, folder: Path) -> None:
        self.bundles: dict[int, Bundle] = {
            rows: write_bundle(network, folder / str(rows), ("fp32",), beam=rows) for rows in BEAMS
        }

    def resident(
        self, rows: int, requests: Requests, memory: Memory | None = None, seed: int = 2
    ) -> dict[int, Decoded]:
        backend = ResidentBackend.load(
            self.bundles[rows], "fp32", slots=SLOTS, threads=1, memory=memory
        )
        scheduler = BeamScheduler(backend.limits, SPECIAL_IDS)
        assert all(scheduler.accepts(options) for _, options in requests)
        found = decode_arriving(backend, scheduler, arriving(requests), random.Random(seed))
        backend.close()
        return found

    def synchronous(self, rows: int, requests: Requests) -> dict[int, Decoded]:
        backend = OnnxBackend.load(
            self.bundles[rows], "fp32", slots=SLOTS, rows_per_slot=rows, threads=1
        )
        scheduler = Scheduler(backend.limits, SPECIAL_IDS)
        return decode_arriving(backend, scheduler, arriving(requests), random.Random(1))


def arriving(requests: Requests) -> list[Sequence]:
    return [Sequence(i, *request) for i, request in enumerate(requests)]


@pytest.fixture(scope="module", params=NETWORKS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    return Model(NETWORKS[request.param](), tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return Model(random_network(seed=2), tmp_path_factory.mktemp("one"))


def some_requests(rows: int, count: int, seed: int) -> Requests:
    rng = random.Random(seed)

    def request() -> tuple[tuple[int, ...], DecodingOptions]:
        words = [rng.randint(4, 29) for _ in range(rng.randint(1, 14))]
        longest = rng.choice([2, 5, 10, 24])
        patience = rng.choice([0.5, 1.0, 1.0, 2.0]) if rows > 1 else 1.0
        finished = max(1, int(rows * patience + 0.5))
        options = DecodingOptions(
            beam_size=rows,
            patience=patience,
            num_hypotheses=rng.randint(1, finished),
            length_penalty=rng.choice([-0.5, 0.0, 0.6, 1.0]),
            min_decoding_length=min(longest, rng.choice([0, 1, 1, 3])),
            max_decoding_length=longest,
            disable_unk=rng.random() < 0.3,
            all_finished=rng.random() < 0.3,
        )
        return (*words, SPECIAL_IDS.eos), options

    return [request() for _ in range(count)]


def assert_same(found: dict[int, Decoded], wanted: dict[int, Decoded]) -> None:
    assert found.keys() == wanted.keys()
    for i, expected in wanted.items():
        tokens = [h.token_ids for h in expected.hypotheses]
        assert [h.token_ids for h in found[i].hypotheses] == tokens
        assert found[i].finish_reason is expected.finish_reason
        assert [h.score for h in found[i].hypotheses] == pytest.approx(
            [h.score for h in expected.hypotheses], abs=SCORE_TOLERANCE
        )


@pytest.mark.parametrize("rows", BEAMS)
def test_device_finds_the_hypotheses_of_the_synchronous_search(model: Model, rows: int) -> None:
    requests = some_requests(rows, 25, seed=rows)
    assert_same(model.resident(rows, requests), model.synchronous(rows, requests))


@pytest.mark.parametrize("rows", [5, 8])
def test_beams_of_all_widths_share_a_batch(one: Model, rows: int) -> None:
    mixed = [request for width in range(1, 6) for request in some_requests(width, 8, width + 20)]
    random.Random(6).shuffle(mixed)
    assert_same(one.resident(rows, mixed), one.synchronous(5, mixed))


def test_results_do_not_depend_on_when_sentences_arrive(one: Model) -> None:
    requests = some_requests(4, 25, seed=9)
    first, *others = (one.resident(4, requests, seed=seed) for seed in range(3))
    for found in others:
        assert_same(found, first)


def test_simulated_gpu_finds_the_same_with_copies_on_a_stream(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = some_requests(4, 25, seed=3)
    wanted = model.resident(4, requests)
    runtime = Runtime()
    bind_by_value(monkeypatch, runtime)
    assert_same(model.resident(4, requests, SimulatedGpu(runtime)), wanted)
    assert not runtime.blocks
    assert not runtime.pinned


def test_caches_grow_and_shrink_with_the_sentences(one: Model) -> None:
    long = DecodingOptions(beam_size=4, min_decoding_length=20, max_decoding_length=24)
    short = DecodingOptions(beam_size=4, max_decoding_length=2)
    requests: Requests = [((5, 6, 7, 3), options) for options in (short, long, short, long, short)]
    backend = ResidentBackend.load(one.bundles[4], "fp32", slots=1, threads=1)
    scheduler = BeamScheduler(backend.limits, SPECIAL_IDS)
    lengths = []
    fit = backend._fit

    def recording(needed: int) -> None:
        fit(needed)
        lengths.append(backend._own.length)

    backend._fit = recording  # type: ignore[method-assign]
    found = decode_arriving(backend, scheduler, arriving(requests), random.Random(1))
    assert_same(found, one.synchronous(4, requests))
    assert max(lengths) > 2 * min(lengths) == 32
    assert lengths[-1] == 16


def test_sentence_of_nan_fails_alone_and_leaves_nothing_in_its_slot(model: Model) -> None:
    options = DecodingOptions(beam_size=4, max_decoding_length=10)
    requests: Requests = [((5 + i, 6, 7, 8, 3), options) for i in range(7)]
    wanted = model.synchronous(4, requests)
    backend = ResidentBackend.load(model.bundles[4], "fp32", slots=SLOTS, threads=1)
    scheduler = BeamScheduler(backend.limits, SPECIAL_IDS)
    for sequence in arriving(requests):
        scheduler.add(sequence)
    found, poisoned = {}, False
    while scheduler.has_work:
        plan = scheduler.schedule()
        if plan.encode is not None:
            backend.encode(plan.encode)  # type: ignore[arg-type]
            if not poisoned:
                _poison(backend, plan.encode.slots[1])  # type: ignore[union-attr]
                poisoned = True
        for sequence, decoded in scheduler.apply(backend.step(plan.step)):  # type: ignore[arg-type]
            found[sequence.id] = decoded
    assert isinstance(found.pop(1), BackendFailed)
    wanted.pop(1)
    assert_same(found, wanted)  # type: ignore[arg-type]


def _poison(backend: ResidentBackend, slot: int) -> None:
    pool = backend._cross
    shape = pool.heads, pool.length, pool.width
    for name, _ in pool.arrays():
        if name == "cross_values.0":
            size = int(np.prod(shape))
            array = (ctypes.c_float * size).from_address(pool.place(name, slot))
            np.ctypeslib.as_array(array)[...] = np.nan


def test_slots_are_reduced_until_the_largest_caches_fit(one: Model) -> None:
    backend = ResidentBackend.load(one.bundles[4], "fp32", slots=64, threads=1, cache_bytes=1 << 20)
    assert 1 < backend.limits.slots < 64
    backend.close()


@pytest.mark.parametrize(
    "options",
    [
        DecodingOptions(target_prefix=(5,)),
        DecodingOptions(repetition_penalty=1.2),
        DecodingOptions(no_repeat_ngram_size=3),
        DecodingOptions(coverage_penalty=0.2),
        DecodingOptions(suppress_sequences=((5, 6),)),
        DecodingOptions(beam_size=1, sampling_topk=5),
        DecodingOptions(beam_size=6),
    ],
)
def test_constrained_or_wider_searches_are_not_accepted(options: DecodingOptions) -> None:
    assert not BeamScheduler(Limits(2, 4, 16, 24), SPECIAL_IDS).accepts(options)


@pytest.mark.parametrize("rows", range(1, 5))
def test_free_positions_take_the_next_rank_that_has_not_ended(rows: int) -> None:
    table = refill_tables(rows)[-(4**rows) :]
    for code, line in enumerate(table.tolist()):
        ended = [code >> rank & 1 for rank in range(2 * rows)]
        spare = iter([rank for rank in range(rows, 2 * rows) if not ended[rank]])
        for position, rank in enumerate(line):
            wanted = position if not ended[position] else next(spare, None)
            assert rank == wanted if wanted is not None else ended[rank]
