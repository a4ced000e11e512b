"""Cost of one decode step by number of rows, source length and cache length.

    python -m benchmarks.step [--precision int8] [--bundle DIRECTORY]

Runs the backend without scheduler and search. One factor varies at a time; the defaults are 16
sentences of 4 rows, 25 source tokens and 25 written tokens. All rows of a sentence continue its
first row, so that the cache holds one ancestor for each written token, nearly as for the beams of a
trained network.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import machine
from benchmarks.base import CACHE, base_bundle
from benchmarks.workloads import random_words
from models.bundle.bundle import Bundle
from service.runtime import processor
from service.runtime.backend import Backend, EncodeBatch, StepBatch
from service.runtime.onnx import OnnxBackend

SENTENCES = (1, 2, 4, 8, 16, 32, 64, 128)
BEAMS = (1, 2, 4, 8)
SOURCE_LENGTHS = (5, 10, 25, 50, 100)
WRITTEN = (5, 10, 25, 50, 100, 200)
STEPS = 9
"""Consecutive steps; their mean cache length is the requested one."""


@dataclass(frozen=True, slots=True)
class Shape:
    sentences: int = 16
    beam_size: int = 4
    source_length: int = 25
    written: int = 25


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    bundle = Bundle.open(options.bundle) if options.bundle else base_bundle(options.cache)
    backend = OnnxBackend.load(
        bundle,
        options.precision,
        slots=max(SENTENCES),
        rows_per_slot=max(BEAMS),
        threads=options.threads or processor.cores(),
    )
    costs: list[dict[str, float]] = []
    limits = bundle.manifest.limits
    print(f"{processor.description()}; {bundle.manifest.name}, {options.precision}")
    for factor, shapes in factors():
        print(f"\n{factor:<16}{'rows':>6}{'ms a step':>11}{'µs a row':>10}{'others':>8}")
        for shape in shapes:
            if (
                shape.source_length > limits.source_length
                or shape.written + STEPS > limits.target_length
            ):
                continue
            machine.wait_until_quiet(10)
            cost, _, others = processor.timed(partial(measure, backend, bundle, shape))
            costs.append({**asdict(shape), "milliseconds": cost})
            rows = shape.sentences * shape.beam_size
            print(
                f"{getattr(shape, factor):<16}{rows:>6}{cost:>11.2f}"
                f"{cost * 1e3 / rows:>10.1f}{others or 0:>8.2f}",
                flush=True,
            )
    backend.close()
    record = {
        "benchmark": "step",
        "machine": processor.description(),
        "bundle": bundle.manifest.name,
        "precision": options.precision,
        "costs": costs,
    }
    print(f"\n{json.dumps(record)}")
    return 0


def factors() -> Iterator[tuple[str, list[Shape]]]:
    """The varied factors, by field name, and the shapes to measure."""
    usual = Shape()
    yield "sentences", [replace(usual, sentences=n) for n in SENTENCES]
    yield "beam_size", [replace(usual, beam_size=n) for n in BEAMS]
    yield "source_length", [replace(usual, source_length=n) for n in SOURCE_LENGTHS]
    yield "written", [replace(usual, written=n) for n in WRITTEN]


def measure(backend: Backend, bundle: Bundle, shape: Shape) -> float:
    """Encode, write up to the shape's length; median milliseconds of the steps around it."""
    sources = random_words(bundle, [shape.source_length] * shape.sentences)
    backend.encode(EncodeBatch(0, sources))
    parents_BK = np.zeros((shape.sentences, shape.beam_size), np.int32)
    tokens_BK = np.random.default_rng(1).integers(
        4, bundle.manifest.dimensions.vocabulary_size, parents_BK.shape, dtype=np.int32
    )
    seconds = []
    first = max(0, shape.written - STEPS // 2)
    for position in range(first + STEPS):
        positions_B = np.full(shape.sentences, position, np.int32)
        batch = StepBatch(parents_BK, tokens_BK, positions_B, 2 * shape.beam_size)
        started = time.perf_counter()
        backend.step(batch)
        if position >= first:
            seconds.append(time.perf_counter() - started)
    return statistics.median(seconds) * 1e3


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.step", description=__doc__)
    parser.add_argument("--bundle", type=Path, help="a bundle (default: the base network)")
    parser.add_argument("--precision", choices=("int8", "fp32"), default="int8")
    parser.add_argument("--threads", type=int, default=0, help="0 is every core")
    parser.add_argument("--cache", type=Path, default=CACHE)
    return parser


if __name__ == "__main__":
    sys.exit(main())
