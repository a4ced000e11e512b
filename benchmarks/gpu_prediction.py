"""Predicts the rows of ``benchmarks.gpu``, so that the first run on a GPU can be held against them.

    python -m benchmarks.gpu_prediction [--gpu h200] [--record FILE]

The network is the base network in fp16, with beams of 4 and sources of 25 tokens. A step takes as
long as the slower of GPU and host. The GPU's time is the sum of three parts: each kernel's shortest
time, the bytes of the step over the bandwidth of a copy, and its multiplications over what matrix
products reach. Launches are counted on stubs of the CUDA libraries (``tests/runtime/cuda_stubs``),
the host's times are those of docs/log.md; every other constant below is an estimate. With
``--record``, a file of ``benchmarks.gpu``, the measured values stand beside the predicted ones.
"""

from __future__ import annotations

import argparse
import heapq
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.base import CONFIG
from benchmarks.gpu import ARRIVING, BEAM_SIZE, SENTENCES, step_bytes
from benchmarks.workloads import FIXED_TOKENS, newstest_lengths
from models.export.graphs import dimensions_of

SHORTEST_KERNEL = 2.2e-6
"""Seconds between the starts of two short kernels of one stream."""
HOST_PER_LAUNCH = 7e-6
"""Seconds in which ONNX Runtime launches a kernel without capture."""
COPY_SHARE = 0.85
"""Part of the nominal bandwidth that a copy reaches."""
PRODUCT_SHARE = 0.6
"""Part of the nominal peak that large matrix products reach."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """Nominal figures of its data sheet."""

    bandwidth: float
    """Bytes per second."""
    peak: float
    """Dense operations in fp16 per second."""


GPUS = {"h100": Gpu(3.35e12, 989e12), "h200": Gpu(4.8e12, 989e12)}


@dataclass(frozen=True, slots=True)
class StepKind:
    """How a step is executed, and what it costs apart from the network."""

    launches: int
    """Kernels and products of a step."""
    logit_bytes: int
    """Read and written for each logit, from the product to the best candidates."""
    host: float
    """Seconds of the host in a step, without launches."""
    host_per_sentence: float
    overlaps: bool
    """Whether the host reads a step while the GPU computes the next."""


SYNCHRONOUS = StepKind(172, 32, 0.10e-3, 1.1e-6, overlaps=False)
RESIDENT = StepKind(182, 10, 0.03e-3, 0.2e-6, overlaps=True)
ENCODER_LAUNCHES = 210
"""With the writes of keys, values and zeros into slots."""
ENCODE, ENCODE_SENTENCE = 0.03e-3, 2.5e-6
"""Seconds of the host for an encode without its launches, and for each of its sentences."""
ENCODED_LENGTH = 32
"""Sources are padded to a multiple of this, and to the longest that runs."""
REPLACED = 0.035e-3
"""Seconds of the host for a sentence that ends and another one that begins, its encode apart."""


class Seconds(NamedTuple):
    """What a part of an iteration takes."""

    device: float
    host: float


NO_SECONDS = Seconds(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class PredictedRow:
    capture: bool
    resident: bool
    sentences: int
    step_milliseconds: float
    host_milliseconds: float
    """The host's part of the step."""
    roofline_milliseconds: float
    encode_milliseconds: float
    latency_milliseconds: float
    tokens_per_second: float


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_prediction")
    parser.add_argument("--gpu", choices=GPUS, default="h200")
    parser.add_argument("--record", type=Path, help="what benchmarks.gpu has recorded")
    options = parser.parse_args(arguments)
    print("\n".join(table(GPUS[options.gpu])))
    if options.record is not None:
        lines = options.record.read_text(encoding="utf-8").splitlines()
        print("\n".join(["", *comparison(GPUS[options.gpu], [json.loads(line) for line in lines])]))
    return 0


def table(gpu: Gpu) -> Iterator[str]:
    """The predicted rows, and tokens per second of arriving sentences, in Markdown."""
    yield (
        "| beam searches | sentences | step, ms | of it the host | roofline, ms | encode, ms "
        "| all, ms | tokens/s |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows(gpu):
        times = (
            row.step_milliseconds,
            row.host_milliseconds,
            row.roofline_milliseconds,
            row.encode_milliseconds,
            row.latency_milliseconds,
        )
        cells = " | ".join(f"{time:.2f}" if time < 10 else f"{time:.0f}" for time in times)
        yield f"| {_name(row)} | {row.sentences} | {cells} | {row.tokens_per_second:,.0f} |"
    for capture, resident in _VARIANTS:
        rate = arriving(gpu, max(SENTENCES), capture=capture, resident=resident)
        name = _name(predict(gpu, 1, capture=capture, resident=resident))
        yield f"| {name} | {max(SENTENCES)}, arriving | | | | | | {rate:,.0f} |"


def rows(gpu: Gpu) -> Iterator[PredictedRow]:
    for capture, resident in _VARIANTS:
        for sentences in SENTENCES:
            yield predict(gpu, sentences, capture=capture, resident=resident)


def predict(gpu: Gpu, sentences: int, *, capture: bool, resident: bool) -> PredictedRow:
    """A row of sentences that begin and end together."""
    step, host = step_seconds(gpu, sentences, capture=capture, resident=resident)
    encode = max(encode_seconds(gpu, sentences, FIXED_TOKENS, capture=capture))
    # A beam search needs all its hypotheses, and a step on the device is read after the next.
    seconds = encode + (FIXED_TOKENS + resident) * step
    return PredictedRow(
        capture,
        resident,
        sentences,
        step * 1e3,
        host * 1e3,
        step_bytes(_DIMENSIONS, "fp16", sentences) / (gpu.bandwidth * COPY_SHARE) * 1e3,
        encode * 1e3,
        seconds * 1e3,
        sentences * FIXED_TOKENS / seconds,
    )


def step_seconds(
    gpu: Gpu, sentences: int, *, capture: bool, resident: bool, further: Seconds = NO_SECONDS
) -> tuple[float, float]:
    """Seconds of a step with ``further`` ones, and of the host in it."""
    kind = RESIDENT if resident else SYNCHRONOUS
    launching = 0.0 if capture else kind.launches * HOST_PER_LAUNCH
    host = kind.host + kind.host_per_sentence * sentences + further.host
    d, rows = _DIMENSIONS, sentences * BEAM_SIZE
    weights = d.decoder_layers * (6 * d.width**2 + 2 * d.width * d.feed_forward)
    weights += d.width * d.vocabulary_size
    entries = FIXED_TOKENS // 2 + BEAM_SIZE + FIXED_TOKENS
    operations = 2 * rows * weights + 4 * rows * d.decoder_layers * d.width * entries
    moved = step_bytes(d, "fp16", sentences) + rows * d.vocabulary_size * kind.logit_bytes
    device = _device_seconds(gpu, kind.launches, moved, operations) + further.device
    if kind.overlaps:
        return max(launching + host, device), launching + host
    # The host waits for the device and then reads.
    return max(launching, device) + host, launching + host


def encode_seconds(gpu: Gpu, sentences: int, longest: int, *, capture: bool) -> Seconds:
    """An encode, keys and values of cross-attention counted.

    ``longest`` are the tokens of the longest sentence that runs.
    """
    d = _DIMENSIONS
    weights = d.encoder_layers * (4 * d.width**2 + 2 * d.width * d.feed_forward)
    weights += d.decoder_layers * 2 * d.width**2
    rows = 1 << (sentences - 1).bit_length() if capture else sentences
    tokens = rows * -(-longest // ENCODED_LENGTH) * ENCODED_LENGTH
    device = _device_seconds(gpu, ENCODER_LAUNCHES, 2 * weights, 2 * tokens * weights)
    launching = 0.0 if capture else ENCODER_LAUNCHES * HOST_PER_LAUNCH
    return Seconds(device, launching + ENCODE + ENCODE_SENTENCE * sentences)


def arriving(gpu: Gpu, slots: int, *, capture: bool, resident: bool) -> float:
    """Tokens per second of sentences of mixed lengths that take the slots of finished ones."""
    lengths = newstest_lengths(ARRIVING * slots)
    waiting = lengths[::-1]
    ends: list[int] = []
    seconds, steps = 0.0, 0
    while waiting or ends:
        admitted = [waiting.pop() for _ in range(min(slots - len(ends), len(waiting)))]
        for length in admitted:
            heapq.heappush(ends, steps + length + resident)
        work = NO_SECONDS
        if admitted:
            # The longest of all, although shorter ones may be running.
            encode = encode_seconds(gpu, len(admitted), max(lengths), capture=capture)
            work = Seconds(encode.device, encode.host + len(admitted) * REPLACED)
        seconds += step_seconds(gpu, len(ends), capture=capture, resident=resident, further=work)[0]
        steps += 1
        while ends and ends[0] <= steps:
            heapq.heappop(ends)
    return sum(lengths) / seconds


def comparison(gpu: Gpu, recorded: Sequence[dict[str, object]]) -> Iterator[str]:
    """Measured beside predicted values, for each recorded batch."""
    yield "| beam searches | sentences | | measured | predicted | ratio |"
    yield "|---|---|---|---|---|---|"
    for found in recorded:
        if found["kind"] != "batch":
            continue
        sentences = found["sentences"]
        assert isinstance(sentences, int)
        row = predict(
            gpu,
            sentences,
            capture=bool(found.get("capture")),
            resident=bool(found.get("resident")),
        )
        for name in ("step_milliseconds", "encode_milliseconds", "tokens_per_second"):
            measured, predicted = found.get(name), getattr(row, name)
            if isinstance(measured, int | float):
                numbers = f"{measured:.4g} | {predicted:.4g} | {measured / predicted:.2f}"
                yield f"| {_name(row)} | {sentences} | {name} | {numbers} |"


def _device_seconds(gpu: Gpu, launches: int, moved: float, operations: float) -> float:
    return (
        launches * SHORTEST_KERNEL
        + moved / (gpu.bandwidth * COPY_SHARE)
        + operations / (gpu.peak * PRODUCT_SHARE)
    )


def _name(row: PredictedRow) -> str:
    return f"{'device' if row.resident else 'host'}{', captured' if row.capture else ''}"


_DIMENSIONS = dimensions_of(CONFIG)
_VARIANTS = [(capture, resident) for capture in (False, True) for resident in (False, True)]


if __name__ == "__main__":
    sys.exit(main())
