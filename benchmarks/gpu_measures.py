"""Stages of ``benchmarks.gpu``: each measures one thing and notes every result at once."""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import json
import os
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from benchmarks.base import CONFIG, FIRST_WORD, base_bundle, random_network
from benchmarks.workloads import FIXED_TOKENS, Sentences, newstest_lengths, random_words
from models.bundle.bundle import Bundle
from models.bundle.manifest import Dimensions, Precision
from service.engine.beam_scheduler import BeamScheduler
from service.engine.engine import Engine
from service.engine.group import EngineGroup
from service.engine.scheduler import BatchScheduler, Scheduler
from service.engine.types import DecodingOptions
from service.runtime import processor
from service.runtime.attention import AttentionGraph
from service.runtime.backend import (
    Admission,
    Backend,
    Beam,
    BeamBackend,
    EncodeBatch,
    FloatArray,
    Launch,
    StepBatch,
)
from service.runtime.cuda import CudaMemory, free_memory
from service.runtime.memory import HostMemory, Memory
from service.runtime.onnx import OnnxBackend
from service.runtime.resident import ResidentBackend
from service.runtime.sessions import Device, usable_gpus

BEAM_SIZE = 4
SENTENCES = (1, 32, 128, 256)
PARITY_SENTENCES = 64
RUNS = 5
ARRIVING = 4
TOGETHER_SECONDS = 20.0
"""How many times as many sentences arrive as there are slots."""
_STEPS = 20
_COPY_BYTES = 2 << 30
_CACHE_BYTES = 8 << 30
_TOP_KERNELS = 15
_PRECISION: Precision = "fp16"
OPTIONS = DecodingOptions(beam_size=BEAM_SIZE, max_decoding_length=128)
CONSTRAINED = DecodingOptions(beam_size=BEAM_SIZE, max_decoding_length=128, repetition_penalty=1.1)


def note(record: Path | None, stage: str, kind: str, **values: object) -> None:
    """Print a result, and append it to the record."""
    numbers = {
        name: float(f"{value:.4g}") if isinstance(value, float) else value
        for name, value in values.items()
    }
    print(stage, kind, ", ".join(f"{name} {value}" for name, value in numbers.items()), flush=True)
    if record is not None:
        line = {"benchmark": "gpu", "stage": stage, "kind": kind, **numbers}
        with record.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


@dataclass(frozen=True, slots=True)
class Measured:
    """Subject of a stage, and the place of its results."""

    stage: str
    record: Path | None
    bundle_path: Path | None
    cache: Path
    device: Device
    sentences: tuple[int, ...]
    together_seconds: float = TOGETHER_SECONDS
    """Length of ``threads``."""

    def note(self, kind: str, **values: object) -> None:
        note(self.record, self.stage, kind, **values)

    @property
    def number(self) -> int:
        """Number of the GPU."""
        return usable_gpus()[0].number

    def bundle(self) -> Bundle:
        return Bundle.open(self.bundle_path) if self.bundle_path else base_bundle(self.cache)

    def memory(self, capture: bool) -> Memory:
        return HostMemory() if self.device == "cpu" else CudaMemory(self.number, capture=capture)

    def ways(self) -> Iterator[tuple[bool, bool]]:
        """Whether searches are on the device, and whether steps are captured."""
        resident = (False, True) if self.bundle().has_resident(_PRECISION) else (False,)
        captured = (False, True) if self.device == "cuda" else (False,)
        return itertools.product(resident, captured)

    def open(self, slots: int, *, resident: bool, capture: bool) -> OnnxBackend | ResidentBackend:
        memory = self.memory(capture)
        if resident:
            return ResidentBackend.load(
                self.bundle(),
                _PRECISION,
                slots=slots,
                threads=0,
                cache_bytes=_CACHE_BYTES,
                memory=memory,
            )
        return load(self.bundle(), _PRECISION, slots, memory)


def load(
    bundle: Bundle, precision: Precision, slots: int, memory: Memory | None = None
) -> OnnxBackend:
    return OnnxBackend.load(
        bundle,
        precision,
        slots=slots,
        rows_per_slot=BEAM_SIZE,
        threads=0,
        cache_bytes=_CACHE_BYTES,
        memory=memory,
    )


# ---- prepare ----


def prepare(run: Measured) -> None:
    bundle = run.bundle()
    run.note("bundle", name=bundle.manifest.name, version=bundle.manifest.version)
    exact = exact_results(run)
    run.note("exact", sentences=len(exact["translations"]))
    if "fp32" in bundle.manifest.precisions:
        from benchmarks.peers.ctranslate2 import converted

        run.note("ctranslate2", model=str(converted(bundle, "fp32", run.cache)))


def exact_results(run: Measured) -> dict[str, Any]:
    """Translations and log-probabilities on the CPU, from the cache.

    In the GPU's precision if there is no fp32: products in int8 are other products.
    """
    bundle = run.bundle()
    version, sentences = bundle.manifest.version, PARITY_SENTENCES
    path = run.cache / f"exact-{bundle.manifest.name}-{version}-{sentences}.json"
    if path.is_file():
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found
    precision: Precision = "fp32" if "fp32" in bundle.manifest.precisions else _PRECISION
    sources = parity_sources(bundle)
    translations, _ = translate(load(bundle, precision, sentences), bundle, sources, runs=0)
    log_probs = list(step_log_probs(load(bundle, precision, sentences), sources))
    found = {
        "translations": translations,
        "log_probs": np.stack(log_probs).tolist(),
        "precision": precision,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found), encoding="utf-8")
    return found


def parity_sources(bundle: Bundle) -> Sentences:
    return random_words(bundle, [FIXED_TOKENS] * PARITY_SENTENCES)


# ---- usable ----


def usable(run: Measured) -> None:
    for gpu in usable_gpus():
        run.note(
            "gpu",
            number=gpu.number,
            name=gpu.name,
            capability=".".join(map(str, gpu.capability)),
            free_gibibytes=free_memory(gpu.number) / 2**30,
        )
    run.note("versions", onnxruntime=onnxruntime.__version__, machine=processor.description())
    try:
        command = ["nvidia-smi", "--query-gpu=driver_version,mig.mode.current,compute_mode,"]
        command[-1] += "memory.used,clocks.sm,clocks.max.sm"
        printed = subprocess.run([*command, "--format=csv"], capture_output=True, text=True)
        run.note("nvidia-smi", printed=printed.stdout.strip())
    except FileNotFoundError:
        run.note("nvidia-smi", printed="not there")
    asyncio.run(_as_the_service(run))


async def _as_the_service(run: Measured) -> None:
    """Load the committed bundle with the service's defaults, and translate with it."""
    from service.loading.loader import load_model
    from service.observability.metrics import Metrics
    from service.settings import Settings

    free, threads, started = free_memory(run.number), _threads(), time.perf_counter()
    path = Path("bundles/general-de-en")
    model = await load_model(path, Settings(device="cuda"), Metrics().observer)
    group = model.engine
    assert isinstance(group, EngineGroup)
    run.note(
        "service",
        seconds=time.perf_counter() - started,
        threads=_threads() - threads,
        mebibytes=(free - free_memory(run.number)) >> 20,
        resident=len(group._preferred),
        slots=[engine._scheduler.limits.slots for engine in group._engines],
    )
    await model.close()


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


# ---- parity ----


def parity(run: Measured) -> None:
    bundle, exact = run.bundle(), exact_results(run)
    sources = parity_sources(bundle)
    expected = [tuple(each) for each in exact["translations"]]
    for resident, capture in run.ways():
        way = {"resident": resident, "capture": capture}
        if not resident:
            backend = run.open(PARITY_SENTENCES, resident=False, capture=capture)
            assert isinstance(backend, OnnxBackend)
            found = np.stack(list(step_log_probs(backend, sources)))
            difference = float(np.abs(found - np.array(exact["log_probs"])).max())
            run.note("difference", log_prob=difference, **way)
        found_twice = [
            translate(
                run.open(PARITY_SENTENCES, resident=resident, capture=capture), bundle, sources, 1
            )[0]
            for _ in range(2)
        ]
        same = sum(map(tuple.__eq__, found_twice[0], expected))
        run.note(
            "same",
            sentences=PARITY_SENTENCES,
            same=same,
            repeated=found_twice[0] == found_twice[1],
            **way,
        )


def step_log_probs(backend: OnnxBackend, sources: Sentences) -> Iterator[FloatArray]:
    """Log-probabilities of the best candidates after each of a few tokens. Closes the backend."""
    backend.encode(EncodeBatch(0, sources))
    for position in range(RUNS):
        yield backend.step(step_batch(len(sources), position)).log_probs_BKN.copy()
    backend.close()


def step_batch(sentences: int, position: int) -> StepBatch:
    """All rows continue the first row of their sentence with the same token."""
    parents_BK = np.zeros((sentences, BEAM_SIZE), np.int32)
    tokens_BK = np.full_like(parents_BK, FIRST_WORD)
    return StepBatch(parents_BK, tokens_BK, np.full(sentences, position, np.int32), 2 * BEAM_SIZE)


def translate(
    backend: OnnxBackend | ResidentBackend,
    bundle: Bundle,
    sentences: Sentences,
    runs: int,
) -> tuple[list[tuple[int, ...]], float]:
    """The translations, and the median seconds of a run over all sentences. Closes the backend.

    The first run is not one of ``runs``, and is timed only if there is no other.
    """

    async def all_at_once() -> tuple[list[tuple[int, ...]], float]:
        engine = engine_of(backend, bundle)
        await engine.start()
        seconds = []
        try:
            for _ in range(runs + 1):
                started = time.perf_counter()
                decoded = await asyncio.gather(*(engine.decode(s, OPTIONS) for s in sentences))
                seconds.append(time.perf_counter() - started)
        finally:
            await engine.close()
        # The first run allocates and, on a GPU, chooses kernels.
        warm = seconds[1:] or seconds
        return [each.hypotheses[0].token_ids for each in decoded], statistics.median(warm)

    return asyncio.run(all_at_once())


def engine_of(backend: Backend | BeamBackend, bundle: Bundle) -> Engine:
    kind: type[BatchScheduler] = (
        BeamScheduler if isinstance(backend, ResidentBackend) else Scheduler
    )
    scheduler = kind(
        backend.limits,
        bundle.manifest.special_ids,
        max_padded_tokens=1 << 20,
    )
    return Engine(backend, scheduler)


# ---- ramp ----


def ramp(run: Measured) -> None:
    slots, bundle = max(run.sentences), run.bundle()
    sources = random_words(bundle, [FIXED_TOKENS] * slots)
    for resident, capture in run.ways():
        free = free_memory(run.number)
        backend = run.open(slots, resident=resident, capture=capture)
        loaded = free_memory(run.number)
        backend.reserve()
        reserved = free_memory(run.number)
        for sentences in range(1, slots + 1):
            admit(backend, sentences - 1, sources[sentences - 1 : sentences])
            step(backend, sentences, 0)
        ramped = free_memory(run.number)
        run.note(
            "memory",
            resident=resident,
            capture=capture,
            slots=backend.limits.slots,
            load_mebibytes=(free - loaded) >> 20,
            largest_batch_mebibytes=(loaded - reserved) >> 20,
            ramp_mebibytes=(reserved - ramped) >> 20,
        )
        backend.close()


def admit(backend: OnnxBackend | ResidentBackend, first: int, sources: Sentences) -> None:
    if isinstance(backend, ResidentBackend):
        slots = range(first, min(first + len(sources), backend.limits.slots))
        beams = [Beam(BEAM_SIZE, 1, bar_unk=False)] * len(slots)
        if slots:
            backend.encode(Admission(slots, sources[: len(slots)], beams))
    else:
        backend.encode(EncodeBatch(first, sources))


def step(backend: OnnxBackend | ResidentBackend, sentences: int, position: int) -> None:
    if isinstance(backend, ResidentBackend):
        slots = np.arange(min(sentences, backend.limits.slots))
        backend.step(Launch(slots, BEAM_SIZE * len(slots)))
    else:
        backend.step(step_batch(sentences, position))


# ---- speed ----


class Stopwatch:
    """Milliseconds of the device's work, by two events on the stream of a memory."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._events = [ctypes.c_void_p() for _ in range(2)]
        if isinstance(memory, CudaMemory):
            for event in self._events:
                memory.call("cudaEventCreate", ctypes.byref(event))

    @contextmanager
    def measuring(self, found: list[float]) -> Iterator[None]:
        started = time.perf_counter()
        self._record(0)
        yield
        self._record(1)
        self._memory.wait()
        milliseconds = ctypes.c_float(1e3 * (time.perf_counter() - started))
        if isinstance(self._memory, CudaMemory):
            target = ctypes.byref(milliseconds)
            self._memory.call("cudaEventElapsedTime", target, *self._events)
        found.append(milliseconds.value)

    def _record(self, number: int) -> None:
        if isinstance(self._memory, CudaMemory):
            stream = ctypes.c_void_p(self._memory.stream)
            self._memory.call("cudaEventRecord", self._events[number], stream)


def speed(run: Measured) -> None:
    bandwidth = copy_bandwidth(run)
    run.note("copy", bytes_per_second=bandwidth)
    bundle = run.bundle()
    for sentences, (resident, capture) in itertools.product(run.sentences, run.ways()):
        way = {"sentences": sentences, "resident": resident, "capture": capture}
        sources = random_words(bundle, [FIXED_TOKENS] * sentences)
        memory = run.memory(capture)
        backend: OnnxBackend | ResidentBackend = (
            ResidentBackend.load(
                bundle, _PRECISION, slots=sentences, threads=0,
                cache_bytes=_CACHE_BYTES, memory=memory,
            )
            if resident
            else load(bundle, _PRECISION, sentences, memory)
        )  # fmt: skip
        watch = Stopwatch(memory)
        encodes: list[float] = []
        for _ in range(RUNS):
            with watch.measuring(encodes):
                admit(backend, 0, sources)
        for position in range(4):
            step(backend, sentences, position)
        steps: list[float] = []
        started = time.perf_counter()
        with watch.measuring(steps):
            for position in range(4, 4 + _STEPS):
                step(backend, sentences, position)
            queued = time.perf_counter() - started
        wall = time.perf_counter() - started
        roofline = step_bytes(bundle.manifest.dimensions, _PRECISION, sentences) / bandwidth
        run.note(
            "step",
            **way,
            encode_milliseconds=min(encodes),
            device_milliseconds=steps[0] / _STEPS,
            wall_milliseconds=wall / _STEPS * 1e3,
            queueing_milliseconds=queued / _STEPS * 1e3,
            roofline_milliseconds=roofline * 1e3,
        )
        backend.close()
        backend = run.open(sentences, resident=resident, capture=capture)
        translations, seconds = translate(backend, bundle, sources, RUNS)
        tokens = sum(len(translation) + 1 for translation in translations)
        run.note("batch", **way, tokens_per_second=tokens / seconds, seconds=seconds)


def copy_bandwidth(run: Measured) -> float:
    """Bytes read and written per second by a copy within the device's memory."""
    memory = run.memory(capture=False)
    watch, found = Stopwatch(memory), list[float]()
    if isinstance(memory, CudaMemory):
        source, target = (memory.allocate(_COPY_BYTES) for _ in range(2))
        copy: Callable[[], object] = partial(
            memory.call, "cudaMemcpyAsync", ctypes.c_void_p(target), ctypes.c_void_p(source),
            ctypes.c_size_t(_COPY_BYTES), 3, ctypes.c_void_p(memory.stream),
        )  # fmt: skip
    else:
        here, there = (np.zeros(_COPY_BYTES >> 3, np.uint8) for _ in range(2))
        copy = partial(np.copyto, there, here)
    for _ in range(RUNS):
        with watch.measuring(found):
            copy()
    size = _COPY_BYTES
    if isinstance(memory, CudaMemory):
        for address in (source, target):
            memory.free(address)
    else:
        size >>= 3
    memory.close()
    return 2 * size / (min(found) / 1e3)


def step_bytes(dimensions: Dimensions, precision: Precision, sentences: int) -> int:
    """Bytes that a step must read: the decoder's weights, and half the final keys and values."""
    size = {"fp32": 4, "fp16": 2, "int8": 1}[precision]
    width, inner = dimensions.width, dimensions.feed_forward
    of_a_layer = 6 * width * width + 2 * width * inner
    weights = dimensions.decoder_layers * of_a_layer + width * dimensions.vocabulary_size
    entries = FIXED_TOKENS // 2 + BEAM_SIZE + FIXED_TOKENS
    cached = 2 * dimensions.decoder_layers * width * entries * sentences
    return weights * size + cached * (2 if precision == "fp16" else 4)


# ---- threads ----


def threads(run: Measured) -> None:
    run.note("outcomes", **asyncio.run(_threads_together(run)))


async def _threads_together(run: Measured) -> dict[str, object]:
    """Outcomes of searches of both kinds and of attention, while backends come and go."""
    bundle, slots = run.bundle(), max(run.sentences)
    sources = random_words(bundle, newstest_lengths(slots))
    source = sources[0]
    until = time.monotonic() + run.together_seconds
    sentences, maps, reloads = Counter[str](), Counter[str](), 0

    async def opened() -> EngineGroup:
        def load_both() -> list[OnnxBackend | ResidentBackend]:
            return [run.open(slots, resident=resident, capture=True) for resident in kinds]

        backends = await asyncio.to_thread(load_both)
        engines = [engine_of(backend, bundle) for backend in backends]
        group = EngineGroup(engines[:1], engines[1:])
        await group.start()
        return group

    kinds = (False, True) if bundle.has_resident(_PRECISION) else (False,)
    group = await opened()
    attention = AttentionGraph.load(bundle, _PRECISION, device="cuda", device_id=run.number)

    async def decoding() -> None:
        for size in itertools.cycle((1, 2, 3, 5, 9, 17, 33, 65, 97, 129, 200)):
            if time.monotonic() > until:
                return
            options = itertools.cycle((OPTIONS, CONSTRAINED))
            chosen = sources[: min(size, slots)]
            found = [_outcome(group.decode(each, next(options))) for each in chosen]
            sentences.update(await asyncio.gather(*found))

    async def attending() -> None:
        while time.monotonic() < until:
            maps[await _outcome(asyncio.to_thread(attention.run, source, source[:-1]))] += 1

    async def reloading() -> None:
        nonlocal reloads
        while time.monotonic() < until:
            other = await opened()
            await _outcome(other.decode(source, OPTIONS))
            await other.close()
            reloads += 1

    await asyncio.gather(decoding(), attending(), reloading())
    await group.close()
    await asyncio.to_thread(attention.close)
    return {"sentences": dict(sentences), "attention": dict(maps), "reloads": reloads}


async def _outcome(work: Awaitable[object]) -> str:
    try:
        await work
    except Exception as error:
        cause = error.__cause__ or error
        return f"{type(error).__name__}: {str(cause)[:200]}"
    return "ok"


# ---- arrivals ----


def arrivals(run: Measured) -> None:
    bundle, slots = run.bundle(), max(run.sentences)
    limit = bundle.manifest.limits.source_length
    lengths = [min(length, limit) for length in newstest_lengths(ARRIVING * slots)]
    sources = random_words(bundle, lengths)
    for resident, capture in run.ways():
        backend = run.open(slots, resident=resident, capture=capture)
        translations, seconds = translate(backend, bundle, sources, 1)
        tokens = sum(len(translation) + 1 for translation in translations)
        run.note(
            "arriving",
            resident=resident,
            capture=capture,
            slots=slots,
            tokens_per_second=tokens / seconds,
        )


# ---- peers ----


def peers(run: Measured) -> None:
    for measure in (_torch_step, _ctranslate2):
        try:
            measure(run)
        except Exception as error:
            run.note(
                "failed", peer=measure.__name__[1:], outcome=f"{type(error).__name__}: {error}"
            )


def _torch_step(run: Measured) -> None:
    """Median time of PyTorch's cached step of the base network over as many rows."""
    import torch

    network = random_network().to("cuda", torch.float16)
    for sentences in run.sentences:
        shape = sentences, FIXED_TOKENS
        with torch.inference_mode():
            source_BS = torch.randint(4, CONFIG.source_vocabulary, shape, device="cuda")
            rows = torch.arange(sentences, device="cuda").repeat_interleave(BEAM_SIZE)
            cache = network.start(source_BS).select(rows)
            tokens = torch.full((len(rows),), 100, device="cuda")
            seconds = []
            for _ in range(_STEPS):
                started = time.perf_counter()
                best = network.step(tokens, cache).log_softmax(-1).topk(2 * BEAM_SIZE)
                best.indices.cpu()
                seconds.append(time.perf_counter() - started)
        run.note(
            "torch", sentences=sentences, step_milliseconds=statistics.median(seconds[2:]) * 1e3
        )


def _ctranslate2(run: Measured) -> None:
    import ctranslate2

    from benchmarks.peers.ctranslate2 import converted

    bundle = run.bundle()
    model = converted(bundle, "fp32", run.cache)
    names = json.loads((model / "shared_vocabulary.json").read_text(encoding="utf-8"))
    translator = ctranslate2.Translator(str(model), device="cuda", compute_type="float16")
    for sentences in run.sentences:
        sources = random_words(bundle, [FIXED_TOKENS] * sentences)
        pieces = [[names[token] for token in source] for source in sources]
        seconds = []
        for _ in range(RUNS + 1):
            started = time.perf_counter()
            results = translator.translate_batch(
                pieces, beam_size=BEAM_SIZE, max_decoding_length=128, max_batch_size=0
            )
            seconds.append(time.perf_counter() - started)
        tokens = sum(len(each.hypotheses[0]) + 1 for each in results)
        rate = tokens / statistics.median(seconds[1:])
        run.note("ctranslate2", sentences=sentences, tokens_per_second=rate)


# ---- profile ----


def profile(run: Measured) -> None:
    """The kernels of uncaptured steps: CUPTI and captured graphs disturb one another."""
    import torch

    sentences = max(run.sentences)
    sources = random_words(run.bundle(), [FIXED_TOKENS] * sentences)
    for resident, capture in run.ways():
        if capture:
            continue
        backend = run.open(sentences, resident=resident, capture=False)
        admit(backend, 0, sources)
        for position in range(4):
            step(backend, sentences, position)
        activities = [torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as profiler:
            for position in range(4, 4 + _STEPS):
                step(backend, sentences, position)
            backend.check()
        events = [event for event in profiler.events() or () if not event.name.startswith("cuda")]
        run.note("launches", resident=resident, of_a_step=len(events) / _STEPS)
        spent, count = Counter[str](), Counter(event.name for event in events)
        for event in events:
            spent[event.name] += event.device_time
        for name, microseconds in spent.most_common(_TOP_KERNELS):
            run.note(
                "kernel",
                resident=resident,
                name=name[:120],
                of_a_step=count[name] / _STEPS,
                microseconds_of_a_step=microseconds / _STEPS,
            )
        backend.close()
