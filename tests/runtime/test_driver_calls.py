"""How often a backend on a GPU calls the driver, counted with a simulated GPU."""

from __future__ import annotations

import ctypes
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from models.bundle.bundle import Bundle
from models.bundle.tokenizer import SPECIAL_IDS
from service.engine.scheduler import Scheduler, Sequence
from service.engine.types import DecodingOptions
from service.runtime.backend import Admission, Beam, Edits, EncodeBatch, Launch, StepBatch
from service.runtime.onnx import OnnxBackend
from service.runtime.resident import ResidentBackend
from tests.runtime.simulated_gpu import Runtime, SimulatedGpu, bind_by_value
from tests.support.networks import CONFIG, random_network, write_bundle

SLOTS, ROWS = 32, 4
MOST_CALLS_OF_AN_ENCODE = 24
MOST_CALLS_OF_AN_ADMISSION = 8
EDIT = ((2, np.int32), (9, np.int32), (1.5, np.float32), (3.0, np.float32))
"""Row, token, penalty and bias of an edit."""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return write_bundle(random_network(), tmp_path_factory.mktemp("bundles") / "random", ("fp16",))


class GpuWithSmallBuckets(SimulatedGpu):
    cross_bucket = 8


@pytest.fixture(scope="module")
def resident_bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("bundles") / "resident"
    return write_bundle(random_network(), folder, ("fp16",), beam=ROWS)


def load(bundle: Bundle, memory: SimulatedGpu) -> OnnxBackend:
    return OnnxBackend.load(
        bundle,
        "fp16",
        slots=SLOTS,
        rows_per_slot=ROWS,
        threads=1,
        cache_bytes=1 << 26,
        memory=memory,
    )


@pytest.fixture
def gpu(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[OnnxBackend, Runtime]]:
    runtime = Runtime()
    bind_by_value(monkeypatch, runtime)
    backend = load(bundle, SimulatedGpu(runtime))
    yield backend, runtime
    backend.close()
    assert not runtime.blocks
    assert not runtime.pinned


def calls(runtime: Runtime) -> Counter[str]:
    """The calls since the last time."""
    counted, runtime.calls = runtime.calls, Counter()
    return counted


def sources(count: int, length: int = 6) -> list[tuple[int, ...]]:
    rng = random.Random(count)
    return [(*(rng.randint(4, 29) for _ in range(length)), 3) for _ in range(count)]


def batch_of(sentences: int, position: int, edits: Edits | None = None) -> StepBatch:
    """All rows continue the first row of their sentence, each with another token."""
    parents_BK = np.zeros((sentences, ROWS), np.int32)
    tokens_BK = np.arange(4, 4 + sentences * ROWS, dtype=np.int32).reshape(sentences, ROWS) % 26 + 4
    return StepBatch(parents_BK, tokens_BK, np.full(sentences, position, np.int32), 2 * ROWS, edits)


def admit(backend: ResidentBackend, slots: list[int], length: int = 6) -> None:
    beams = [Beam(ROWS, 1, bar_unk=False)] * len(slots)
    backend.encode(Admission(slots, sources(len(slots), length), beams))


def keys_and_values(backend: ResidentBackend) -> dict[str, NDArray[np.float16]]:
    """Every array of both pools: P × H × entries × D."""
    found = {}
    for pool in (backend._own, backend._cross):
        shape = backend.limits.slots, pool.heads, pool.length, pool.width
        for name, address in pool.arrays():
            raw = ctypes.string_at(address, 2 * int(np.prod(shape)))
            found[name] = np.frombuffer(raw, np.float16).reshape(shape)
    return found


def step(backend: OnnxBackend, sentences: int, position: int) -> None:
    assert np.isfinite(backend.step(batch_of(sentences, position)).log_probs_BKN).all()


def test_encode_of_any_number_of_sentences_is_the_same_small_number_of_calls(
    gpu: tuple[OnnxBackend, Runtime],
) -> None:
    backend, runtime = gpu
    backend.encode(EncodeBatch(0, sources(2)))
    step(backend, 2, 0)
    calls(runtime)
    counted = []
    for count in (1, 8, 30):
        backend.encode(EncodeBatch(2, sources(count)))
        counted.append(calls(runtime))
    assert counted[0] == counted[1] == counted[2]
    assert counted[0].total() <= MOST_CALLS_OF_AN_ENCODE
    assert counted[0]["wait"] == 1
    assert counted[0]["to device"] == 1


@pytest.mark.parametrize("longer", [0, 10])
def test_admission_to_scattered_slots_is_the_same_small_number_of_calls(
    resident_bundle: Bundle, monkeypatch: pytest.MonkeyPatch, longer: int
) -> None:
    """``longer`` are the tokens that a sentence in another slot has more."""
    runtime = Runtime()
    bind_by_value(monkeypatch, runtime)
    backend = ResidentBackend.load(
        resident_bundle, "fp16", slots=129, threads=1, memory=GpuWithSmallBuckets(runtime)
    )
    admit(backend, [128], length=6 + longer)
    backend.step(Launch(np.array([128]), ROWS))
    counted = []
    for count in (2, 6, 64):
        calls(runtime)
        admit(backend, list(range(0, 2 * count, 2)))
        counted.append(calls(runtime))
    admit(backend, [7])
    assert calls(runtime).total() <= MOST_CALLS_OF_AN_ADMISSION
    assert counted[0] == counted[1] == counted[2]
    assert counted[0].total() <= MOST_CALLS_OF_AN_ADMISSION
    assert counted[0]["wait"] == counted[0]["copy"] == 0
    backend.close()


def test_scattered_admission_writes_its_slots_and_no_other(
    resident_bundle: Bundle,
) -> None:
    scattered, alone = (
        ResidentBackend.load(
            resident_bundle, "fp16", slots=SLOTS, threads=1, memory=GpuWithSmallBuckets()
        )
        for _ in range(2)
    )
    for backend in (scattered, alone):
        admit(backend, list(range(SLOTS)), length=9)
        backend.step(Launch(np.arange(SLOTS), ROWS * SLOTS))
    kept = keys_and_values(scattered)
    slots = [1, 2, 5, 9, 30]
    admit(scattered, slots, length=4)
    admit(alone, list(range(len(slots))), length=4)
    found, wanted = keys_and_values(scattered), keys_and_values(alone)
    others = [slot for slot in range(SLOTS) if slot not in slots]
    for name, array in found.items():
        np.testing.assert_array_equal(array[others], kept[name][others])
        np.testing.assert_array_equal(array[slots], wanted[name][: len(slots)])
        assert array[slots].any() == name.startswith("cross")
    scattered.close()
    alone.close()


@pytest.mark.parametrize("capture", [False, True])
def test_batches_of_a_gpu_have_few_sizes(capture: bool) -> None:
    memory = SimulatedGpu(capture=capture)
    found = {memory.batch_size(sentences, 250) for sentences in range(1, 251)}
    assert found == {1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 250}


@pytest.mark.parametrize(("tokens", "length"), [(20, 128), (60, 256), (75, 512), (190, 768)])
def test_resident_cache_grows_by_what_the_longest_sentence_needs(
    tmp_path: Path, tokens: int, length: int
) -> None:
    network = random_network(replace(CONFIG, max_length=200))
    bundle = write_bundle(network, tmp_path / "long", ("fp16",), beam=ROWS)
    backend = ResidentBackend.load(bundle, "fp16", slots=2, threads=1, memory=SimulatedGpu())
    admit(backend, [0])
    # Where TopK is not in order, the highest entry in use is the last one.
    backend._highest_P[0], backend._positions_P[0] = ROWS * 200 - 1, tokens - 1
    backend.step(Launch(np.array([0]), ROWS))
    assert backend._own.length == length
    backend.close()


def test_steady_step_is_a_copy_in_a_copy_out_and_a_wait(gpu: tuple[OnnxBackend, Runtime]) -> None:
    backend, runtime = gpu
    backend.encode(EncodeBatch(0, sources(8)))
    step(backend, 8, 0)
    calls(runtime)
    for position in range(1, 12):
        step(backend, 8, position)
        assert calls(runtime) == {"to device": 1, "to host": 1, "wait": 1}


def test_sentence_that_leaves_costs_one_copy_for_each_pool(
    gpu: tuple[OnnxBackend, Runtime],
) -> None:
    backend, runtime = gpu
    backend.encode(EncodeBatch(0, sources(8)))
    step(backend, 8, 0)
    calls(runtime)
    backend.move(7, 2)
    assert calls(runtime) == {"copy": 2}
    step(backend, 7, 1)
    assert calls(runtime) == {"to device": 1, "to host": 1, "wait": 1}


@pytest.mark.parametrize("sentences", [3, 5, 8, 31])
def test_padded_batch_of_a_captured_step_gives_the_same_candidates(
    bundle: Bundle, sentences: int
) -> None:
    found = []
    for capture in (False, True):
        backend = load(bundle, SimulatedGpu(capture=capture))
        backend.encode(EncodeBatch(0, sources(31)))
        step(backend, 31, 0)
        for origin in range(30, sentences - 1, -1):
            if origin > 1:
                backend.move(origin, origin % 2)
        edits = Edits(*(np.array([value], kind) for value, kind in EDIT))
        for position in (1, 2, 3):
            candidates = backend.step(
                batch_of(sentences, position, edits if position == 2 else None)
            )
            found.append(candidates.token_ids_BKN.copy())
            found.append(candidates.log_probs_BKN.copy())
        backend.close()
    for plain, padded in zip(found[:6], found[6:], strict=True):
        assert plain.shape == padded.shape == (sentences, ROWS, 2 * ROWS)
        np.testing.assert_allclose(plain, padded, atol=2e-3)


def test_sentence_that_joins_a_captured_batch_is_shown_its_source(bundle: Bundle) -> None:
    found = []
    for capture in (False, True):
        backend = load(bundle, SimulatedGpu(capture=capture))
        backend.encode(EncodeBatch(0, sources(3)))
        step(backend, 3, 0)
        # With capture, both steps have the binding of four sentences.
        backend.encode(EncodeBatch(3, sources(1)))
        found.append(backend.step(batch_of(4, 1)).log_probs_BKN.copy())
        backend.close()
    np.testing.assert_allclose(*found, atol=2e-3)


def test_a_thousand_steps_with_arrivals_and_departures_allocate_nothing(
    gpu: tuple[OnnxBackend, Runtime],
) -> None:
    backend, runtime = gpu
    scheduler = Scheduler(backend.limits, SPECIAL_IDS, max_padded_tokens=400)
    rng = random.Random(7)
    options = DecodingOptions(beam_size=ROWS, max_decoding_length=16)
    steps = number = ended = 0
    while steps < 1000:
        while number - ended < SLOTS and rng.random() < 0.5:
            scheduler.add(Sequence(number, sources(1, rng.randint(1, 10))[0], options))
            number += 1
        if not scheduler.has_work:
            continue
        plan = scheduler.schedule()
        for origin, slot in plan.moves:
            backend.move(origin, slot)
        if plan.encode is not None:
            backend.encode(plan.encode)
        assert plan.step is not None
        ended += len(scheduler.apply(backend.step(plan.step)))
        steps += 1
        if steps == 1:
            calls(runtime)
    counted = calls(runtime)
    assert number > 100
    assert counted["allocate"] == counted["free"] == 0
