"""GPU benchmark: parity with the CPU, tokens per second, and step time against the roofline.

    python -m benchmarks.gpu [--bundle DIRECTORY] [--precision fp16] [--sentences 1 8 32 128 256]

Prints each result when it is known, and appends it to ``--record`` as a line of JSON, so that a run
that is stopped has not been in vain: whether a GPU is usable, the largest difference of a step from
fp32 on the CPU, and how many translations are the same, first with plain steps and then with steps
captured into CUDA graphs; each also with the beam searches on the device. Then, for beams of 4 and
sources of 25 tokens: target tokens per second of our engine as the service runs it; the
milliseconds of an encode and of a step, and of the latter how many the host does not wait; the
roofline (the bytes of weights, keys and values that a step must read, over the bandwidth of a
measured copy); PyTorch's step over the same weights and rows; and memory. Last, sentences of mixed
lengths that arrive and leave. ``--device cpu`` runs the same on a CPU, to try the script.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from benchmarks.base import CACHE, CONFIG, FIRST_WORD, base_bundle, random_network
from benchmarks.workloads import (
    FIXED_TOKENS,
    Sentences,
    newstest_lengths,
    random_words,
)
from models.bundle.bundle import Bundle
from models.bundle.manifest import Dimensions, Precision
from service.engine.beam_scheduler import BeamScheduler
from service.engine.engine import Engine
from service.engine.scheduler import Scheduler
from service.engine.types import DecodingOptions
from service.runtime import processor
from service.runtime.backend import EncodeBatch, FloatArray, StepBatch
from service.runtime.cuda import CudaMemory
from service.runtime.memory import HostMemory, Memory
from service.runtime.onnx import OnnxBackend
from service.runtime.resident import ResidentBackend
from service.runtime.sessions import Device, available_device, usable_gpus

BEAM_SIZE = 4
SENTENCES = (1, 8, 32, 128, 256)
PARITY_SENTENCES = 64
RUNS = 5
ARRIVING = 4
"""How many times as many sentences arrive as there are slots."""
_STEPS = 12
_COPY_BYTES = 1 << 28
_CACHE_BYTES = 8 << 30


@dataclass(frozen=True, slots=True)
class Row:
    """One batch size."""

    sentences: int
    tokens_per_second: float
    latency_milliseconds: float
    """Median time from submitting all sentences to the last result."""
    encode_milliseconds: float
    step_milliseconds: float
    host_milliseconds: float
    """The part of a step in which the host does not wait for the device."""
    launches: int
    """Kernels of a step; 0 on a CPU."""
    roofline_milliseconds: float
    torch_milliseconds: float
    memory_megabytes: float
    """Memory of the device in use, with that of other processes; 0 on a CPU."""


class _TimedGpu(CudaMemory):
    """Adds up the time for which the host waits."""

    waited = 0.0

    def wait(self) -> None:
        started = time.perf_counter()
        super().wait()
        self.waited += time.perf_counter() - started


class _TimedHost(HostMemory):
    waited = 0.0


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    device = available_device(options.device)
    bundle = Bundle.open(options.bundle) if options.bundle else base_bundle(options.cache)
    precision: Precision = options.precision
    note = partial(_note, options.record)
    place = ", ".join(gpu.name for gpu in usable_gpus()) if device == "cuda" else "cpu"
    note(
        "start",
        machine=processor.description(),
        device=place,
        bundle=bundle.manifest.name,
        precision=precision,
    )
    bandwidth = copy_bandwidth(device)
    note("copy", bytes_per_second=bandwidth)
    slots, exact = max(options.sentences), exact_translations(bundle)
    for capture in (False, True) if device == "cuda" and precision == "fp16" else (False,):
        run = partial(note, capture=capture)
        run("difference", log_prob=largest_difference(bundle, precision, device, capture))
        there = load(bundle, precision, PARITY_SENTENCES, memory_of(device, capture))
        same = parity(bundle, there, exact)
        run("parity", same=same, sentences=PARITY_SENTENCES)
        for sentences in options.sentences:
            row = measure(bundle, precision, device, sentences, bandwidth, capture)
            run("batch", **asdict(row))
        there = load(bundle, precision, slots, memory_of(device, capture))
        rate = arriving(bundle, there, ARRIVING * slots)
        run("arriving", slots=slots, tokens_per_second=rate)
        if bundle.has_resident(precision):
            on_device = partial(run, resident=True)
            _on_the_device(on_device, bundle, precision, device, options, capture, exact)
    return 0


def _on_the_device(
    run: Callable[..., None],
    bundle: Bundle,
    precision: Precision,
    device: Device,
    options: argparse.Namespace,
    capture: bool,
    exact: Sentences,
) -> None:
    """The rows of beam searches on the device."""

    def opened(slots: int) -> ResidentBackend:
        memory = memory_of(device, capture)
        return ResidentBackend.load(
            bundle, precision, slots=slots, threads=0, cache_bytes=_CACHE_BYTES, memory=memory
        )

    same = parity(bundle, opened(PARITY_SENTENCES), exact)
    run("parity", same=same, sentences=PARITY_SENTENCES)
    for sentences in options.sentences:
        sources = random_words(bundle, [FIXED_TOKENS] * sentences)
        translations, seconds = translate(opened(sentences), bundle, sources, RUNS)
        tokens = sum(len(translation) + 1 for translation in translations)
        run(
            "batch",
            sentences=sentences,
            tokens_per_second=tokens / seconds,
            latency_milliseconds=seconds * 1e3,
        )
    slots = max(options.sentences)
    rate = arriving(bundle, opened(slots), ARRIVING * slots)
    run("arriving", slots=slots, tokens_per_second=rate)


def _note(record: Path | None, kind: str, **values: object) -> None:
    """Print a result, and append it to the record."""
    numbers = {
        name: float(f"{value:.4g}") if isinstance(value, float) else value
        for name, value in values.items()
    }
    print(kind, ", ".join(f"{name} {value}" for name, value in numbers.items()), flush=True)
    if record is not None:
        with record.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"benchmark": "gpu", "kind": kind, **numbers}) + "\n")


def largest_difference(
    bundle: Bundle, precision: Precision, device: Device, capture: bool = False
) -> float:
    """The largest difference of a candidate's log-probability from fp32 on the CPU."""
    sources = random_words(bundle, [FIXED_TOKENS] * PARITY_SENTENCES)
    there = load(bundle, precision, len(sources), memory_of(device, capture))
    found, exact = (
        np.stack(list(log_probs(backend, sources)))
        for backend in (there, load(bundle, "fp32", len(sources)))
    )
    return float(np.abs(found - exact).max())


def log_probs(backend: OnnxBackend, sources: Sentences) -> Iterator[FloatArray]:
    """Log-probabilities of the best candidates after each of a few tokens."""
    backend.encode(EncodeBatch(0, sources))
    for position in range(_STEPS):
        yield backend.step(_batch(len(sources), position)).log_probs_BKN.copy()
    backend.close()


def _batch(sentences: int, position: int) -> StepBatch:
    """All rows continue the first row of their sentence with the same token."""
    parents_BK = np.zeros((sentences, BEAM_SIZE), np.int32)
    tokens_BK = np.full_like(parents_BK, FIRST_WORD)
    return StepBatch(parents_BK, tokens_BK, np.full(sentences, position, np.int32), 2 * BEAM_SIZE)


def arriving(bundle: Bundle, backend: OnnxBackend | ResidentBackend, sentences: int) -> float:
    """Tokens per second of sentences of mixed lengths that take the slots of finished ones."""
    lengths = newstest_lengths(sentences)
    limit = bundle.manifest.limits.source_length
    sources = random_words(bundle, [min(length, limit) for length in lengths])
    translations, seconds = translate(backend, bundle, sources, runs=1)
    return sum(len(translation) + 1 for translation in translations) / seconds


def exact_translations(bundle: Bundle) -> Sentences:
    """Translations in fp32 on the CPU, with which ``parity`` compares."""
    sentences = random_words(bundle, [FIXED_TOKENS] * PARITY_SENTENCES)
    found, _ = translate(load(bundle, "fp32", len(sentences)), bundle, sentences, runs=0)
    return tuple(found)


def parity(bundle: Bundle, backend: OnnxBackend | ResidentBackend, exact: Sentences) -> int:
    """Number of sentences whose translation equals that in ``exact``."""
    sentences = random_words(bundle, [FIXED_TOKENS] * PARITY_SENTENCES)
    found, _ = translate(backend, bundle, sentences, runs=1)
    return sum(map(tuple.__eq__, found, exact))


def translate(
    backend: OnnxBackend | ResidentBackend, bundle: Bundle, sentences: Sentences, runs: int
) -> tuple[list[tuple[int, ...]], float]:
    """The translations, and the median seconds of a run over all sentences. Closes the backend.

    The first run is not one of ``runs``, and is timed only if there is no other.
    """
    kind = BeamScheduler if isinstance(backend, ResidentBackend) else Scheduler
    scheduler = kind(backend.limits, bundle.manifest.special_ids, max_padded_tokens=1 << 20)
    options = DecodingOptions(beam_size=BEAM_SIZE, max_decoding_length=128)

    async def all_at_once() -> tuple[list[tuple[int, ...]], float]:
        engine = Engine(backend, scheduler)
        await engine.start()
        seconds = []
        try:
            for _ in range(runs + 1):
                started = time.perf_counter()
                decoded = await asyncio.gather(*(engine.decode(s, options) for s in sentences))
                seconds.append(time.perf_counter() - started)
        finally:
            await engine.close()
        # The first run allocates and, on a GPU, chooses kernels.
        warm = seconds[1:] or seconds
        return [each.hypotheses[0].token_ids for each in decoded], statistics.median(warm)

    return asyncio.run(all_at_once())


def memory_of(device: Device, capture: bool) -> _TimedGpu | _TimedHost:
    if device == "cpu":
        return _TimedHost()
    return _TimedGpu(usable_gpus()[0].number, capture=capture)


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


def measure(
    bundle: Bundle,
    precision: Precision,
    device: Device,
    sentences: int,
    bandwidth: float,
    capture: bool = False,
) -> Row:
    sources = random_words(bundle, [FIXED_TOKENS] * sentences)
    backend = load(bundle, precision, sentences, memory_of(device, capture))
    translations, seconds = translate(backend, bundle, sources, RUNS)
    tokens = sum(len(translation) + 1 for translation in translations)
    memory = memory_of(device, capture)
    backend = load(bundle, precision, sentences, memory)
    encode = _seconds(lambda: backend.encode(EncodeBatch(0, sources)))
    steps, host = [], []
    for position in range(_STEPS):
        batch, waited = _batch(sentences, position), memory.waited
        started = time.perf_counter()
        backend.step(batch)
        steps.append(time.perf_counter() - started)
        host.append(steps[-1] - (memory.waited - waited))
    launches = _launches(lambda: backend.step(_batch(sentences, _STEPS)), device)
    used = 0.0
    if device == "cuda":
        free, total = torch.cuda.mem_get_info()
        used = (total - free) / 2**20
    backend.close()
    return Row(
        sentences=sentences,
        tokens_per_second=tokens / seconds,
        latency_milliseconds=seconds * 1e3,
        encode_milliseconds=encode * 1e3,
        step_milliseconds=statistics.median(steps[2:]) * 1e3,
        host_milliseconds=statistics.median(host[2:]) * 1e3,
        launches=launches,
        roofline_milliseconds=step_bytes(bundle.manifest.dimensions, precision, sentences)
        / bandwidth
        * 1e3,
        torch_milliseconds=torch_step_seconds(device, sentences) * 1e3,
        memory_megabytes=used,
    )


def _seconds(work: Callable[[], object]) -> float:
    """Median seconds of a few runs after the first, which allocates."""
    seconds = []
    for _ in range(RUNS + 1):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[1:])


def _launches(work: Callable[[], object], device: Device) -> int:
    """Kernels that ``work`` launches, counted by PyTorch's profiler, which sees all libraries."""
    if device == "cpu":
        return 0
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        work()
    events = profiler.events() or ()
    return sum(not event.name.startswith(("Memcpy", "Memset", "cuda")) for event in events)


def step_bytes(dimensions: Dimensions, precision: Precision, sentences: int) -> int:
    """Bytes that a step must read: the decoder's weights, and half the final keys and values."""
    size = {"fp32": 4, "fp16": 2, "int8": 1}[precision]
    width, inner = dimensions.width, dimensions.feed_forward
    of_a_layer = 6 * width * width + 2 * width * inner
    weights = dimensions.decoder_layers * of_a_layer + width * dimensions.vocabulary_size
    entries = FIXED_TOKENS // 2 + BEAM_SIZE + FIXED_TOKENS
    cached = 2 * dimensions.decoder_layers * width * entries * sentences
    return weights * size + cached * (2 if precision == "fp16" else 4)


def copy_bandwidth(device: Device) -> float:
    """Bytes read and written per second by a copy within the device's memory."""
    source = torch.zeros(_COPY_BYTES, dtype=torch.uint8, device=device)
    target = torch.zeros_like(source)
    seconds = []
    for _ in range(RUNS + 1):
        started = time.perf_counter()
        target.copy_(source)
        # Reading one element waits for the copy.
        target[0].item()
        seconds.append(time.perf_counter() - started)
    return 2 * _COPY_BYTES / min(seconds[1:])


@torch.inference_mode()
def torch_step_seconds(device: Device, sentences: int) -> float:
    """Median time of PyTorch's cached step of the base network over as many rows."""
    element = torch.float16 if device == "cuda" else torch.float32
    network = random_network().to(device, element)
    source_BS = torch.randint(4, CONFIG.source_vocabulary, (sentences, FIXED_TOKENS), device=device)
    rows = torch.arange(sentences, device=device).repeat_interleave(BEAM_SIZE)
    cache = network.start(source_BS).select(rows)
    tokens = torch.full((len(rows),), 100, device=device)
    seconds = []
    for _ in range(_STEPS):
        started = time.perf_counter()
        best = network.step(tokens, cache).log_softmax(-1).topk(2 * BEAM_SIZE)
        best.indices.cpu()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[2:])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--bundle", type=Path, help="a bundle (default: the base network)")
    parser.add_argument("--precision", choices=("fp16", "fp32", "int8"), default="fp16")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--sentences", type=int, nargs="+", default=SENTENCES)
    parser.add_argument("--record", type=Path, help="file that gets a line of JSON for each result")
    parser.add_argument("--cache", type=Path, default=CACHE)
    return parser


if __name__ == "__main__":
    sys.exit(main())
