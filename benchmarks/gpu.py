"""GPU benchmark: parity with the CPU, tokens per second, and step time against the roofline.

    python -m benchmarks.gpu [--bundle DIRECTORY] [--precision fp16] [--sentences 1 8 32 128 512]

Prints, for beams of 4 and sources of 25 tokens, target tokens per second of our engine as the
service runs it, the milliseconds of a step beside the roofline (the bytes of weights, keys and
values that a step must read, over the bandwidth of a measured copy), and PyTorch's step over the
same weights and rows. ``--device cpu`` runs the same on a CPU, to try the script.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from benchmarks import machine
from benchmarks.base import CACHE, CONFIG, base_bundle, random_network
from benchmarks.workloads import FIXED_TOKENS, Sentences, random_words
from models.bundle.bundle import Bundle
from models.bundle.manifest import Precision
from service.engine.engine import Engine
from service.engine.scheduler import Scheduler
from service.engine.types import DecodingOptions
from service.runtime.backend import EncodeBatch, StepBatch
from service.runtime.cuda import CudaMemory
from service.runtime.memory import HostMemory
from service.runtime.onnx import OnnxBackend
from service.runtime.sessions import Device, available_device

BEAM_SIZE = 4
PARITY_SENTENCES = 64
RUNS = 5
_STEPS = 12
_COPY_BYTES = 1 << 28


@dataclass(frozen=True, slots=True)
class Row:
    """One batch size."""

    sentences: int
    tokens_per_second: float
    latency_milliseconds: float
    """Median time from submitting all sentences to the last result."""
    step_milliseconds: float
    roofline_milliseconds: float
    torch_milliseconds: float


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    device = available_device(options.device)
    bundle = Bundle.open(options.bundle) if options.bundle else base_bundle(options.cache)
    print(f"{bundle.manifest.name}, {options.precision} on {device}; {machine.description()}")
    alike = parity(bundle, options.precision, device)
    print(f"{alike} of {PARITY_SENTENCES} sentences translate as in fp32 on the CPU")
    bandwidth = copy_bandwidth(device)
    print(f"a copy reads and writes {bandwidth / 1e9:.0f} GB/s\n")
    heads = ("tokens/s", "all, ms", "step, ms", "roofline")
    print(f"{'sentences':>9}" + "".join(f"{head:>10}" for head in heads) + f"{'torch':>8}")
    rows = []
    for sentences in options.sentences:
        rows.append(measure(bundle, options.precision, device, sentences, bandwidth))
        row = rows[-1]
        print(
            f"{row.sentences:>9}{row.tokens_per_second:>10.0f}{row.latency_milliseconds:>10.1f}"
            f"{row.step_milliseconds:>10.2f}{row.roofline_milliseconds:>10.3f}"
            f"{row.torch_milliseconds:>8.2f}",
            flush=True,
        )
    record = {
        "benchmark": "gpu",
        "machine": machine.description(),
        "device": device,
        "precision": options.precision,
        "same_as_cpu": alike,
        "copy_bytes_per_second": bandwidth,
        "rows": [asdict(row) for row in rows],
    }
    print(f"\n{json.dumps(record)}")
    return 0


def parity(bundle: Bundle, precision: Precision, device: Device) -> int:
    """Number of sentences whose translation equals that of fp32 on the CPU."""
    sentences = random_words(bundle, [FIXED_TOKENS] * PARITY_SENTENCES)
    device_translations, _ = translate(bundle, precision, device, sentences, runs=1)
    cpu_translations, _ = translate(bundle, "fp32", "cpu", sentences, runs=1)
    return sum(map(tuple.__eq__, device_translations, cpu_translations))


def translate(
    bundle: Bundle, precision: Precision, device: Device, sentences: Sentences, runs: int
) -> tuple[list[tuple[int, ...]], float]:
    """The translations, and the median seconds of a run over all sentences."""
    backend = load(bundle, precision, device, len(sentences))
    scheduler = Scheduler(backend.limits, bundle.manifest.special_ids, max_padded_tokens=1 << 20)
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
        warm = seconds[1:]
        return [each.hypotheses[0].token_ids for each in decoded], statistics.median(warm)

    return asyncio.run(all_at_once())


def load(bundle: Bundle, precision: Precision, device: Device, slots: int) -> OnnxBackend:
    return OnnxBackend.load(
        bundle,
        precision,
        slots=slots,
        rows_per_slot=BEAM_SIZE,
        threads=0,
        cache_bytes=64 << 30,
        memory=CudaMemory(0) if device == "cuda" else HostMemory(),
    )


def measure(
    bundle: Bundle, precision: Precision, device: Device, sentences: int, bandwidth: float
) -> Row:
    sources = random_words(bundle, [FIXED_TOKENS] * sentences)
    translations, seconds = translate(bundle, precision, device, sources, RUNS)
    tokens = sum(len(translation) + 1 for translation in translations)
    return Row(
        sentences,
        tokens / seconds,
        seconds * 1e3,
        step_seconds(bundle, precision, device, sources) * 1e3,
        step_bytes(bundle, precision, sentences) / bandwidth * 1e3,
        torch_step_seconds(device, sentences) * 1e3,
    )


def step_seconds(bundle: Bundle, precision: Precision, device: Device, sources: Sentences) -> float:
    """Median step time of the backend alone, in the middle of a translation."""
    backend = load(bundle, precision, device, len(sources))
    backend.encode(EncodeBatch(0, sources))
    parents_BK = np.zeros((len(sources), BEAM_SIZE), np.int32)
    tokens_BK = np.full_like(parents_BK, 100)
    seconds = []
    for position in range(_STEPS):
        positions_B = np.full(len(sources), position, np.int32)
        started = time.perf_counter()
        backend.step(StepBatch(parents_BK, tokens_BK, positions_B, 2 * BEAM_SIZE))
        seconds.append(time.perf_counter() - started)
    backend.close()
    return statistics.median(seconds[2:])


def step_bytes(bundle: Bundle, precision: Precision, sentences: int) -> int:
    """Bytes that a step must read: the decoder's weights, and half the final keys and values."""
    dimensions = bundle.manifest.dimensions
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
    parser.add_argument("--sentences", type=int, nargs="+", default=[1, 8, 32, 128, 512])
    parser.add_argument("--cache", type=Path, default=CACHE)
    return parser


if __name__ == "__main__":
    sys.exit(main())
