"""Processor time of the host in a step whose beam searches are on a GPU, on stubs of CUDA.

    source build/cuda-stubs/env.sh       # see tests/runtime/cuda_stubs/build.sh
    PYTHONPATH=$PYTHONPATH:. python -m benchmarks.host_step [--sentences 256] [--bundle DIRECTORY]

The stubs compute nothing, so this is the host's part alone: planning of the scheduler, the
backend's step as one launch of a CUDA graph, and reading the record of the step before. Records
are random, with as many endings as sentences of about 25 tokens have. A sentence that ends is
replaced at once; steps that admit sentences are counted apart.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from models.bundle.bundle import Bundle
from service.engine.beam_scheduler import BeamScheduler
from service.engine.scheduler import Plan
from service.engine.scheduler import Sequence as Sentence
from service.engine.types import DecodingOptions
from service.runtime import processor
from service.runtime.backend import Admission, Launch, Ranked
from service.runtime.cuda import CudaMemory
from service.runtime.resident import ResidentBackend
from service.runtime.sessions import usable_gpus

T = TypeVar("T")

STEPS = 250
SOURCE_TOKENS = 25
ENDING = 0.04
"""Probability that one of the first ranks ends its hypothesis: a search needs four endings."""
WARMUP = 50


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.host_step", description=__doc__)
    parser.add_argument("--bundle", type=Path, default=Path("bundles/general-de-en"))
    parser.add_argument("--sentences", type=int, default=256)
    options = parser.parse_args(arguments)
    print(processor.description())
    for ending in (0, ENDING):
        print(f"\nprobability {ending} that a rank ends its hypothesis")
        for line in measure(Bundle.open(options.bundle), options.sentences, ending):
            print(line)
    return 0


def measure(bundle: Bundle, sentences: int, ending: float) -> list[str]:
    """A line for each part of a step: median microseconds of processor time."""
    backend = ResidentBackend.load(
        bundle,
        "fp16",
        slots=sentences,
        threads=1,
        memory=CudaMemory(usable_gpus()[0].number, capture=True),
    )
    scheduler = BeamScheduler(backend.limits, bundle.manifest.special_ids)
    rng, number = np.random.default_rng(1), 0
    eos = bundle.manifest.special_ids.eos
    parts: dict[str, list[float]] = {}

    def timed(name: str, work: Callable[[], T]) -> T:
        started = time.thread_time()
        result = work()
        parts.setdefault(name, []).append(time.thread_time() - started)
        return result

    for step in range(STEPS):
        if step == WARMUP:
            parts.clear()
        while number < sentences + scheduler.outcomes.finished:
            source = *rng.integers(6, 100, SOURCE_TOKENS - 1).tolist(), eos
            scheduler.add(Sentence(number, source, DecodingOptions(beam_size=4)))
            number += 1
        arriving = ", admitting" if len(scheduler.waiting) else ""
        plan = timed(f"planning{arriving}", scheduler.schedule)
        if plan.encode is not None:
            timed("encode", partial(_encode, backend, plan))
        _rank(backend, rng, eos, ending)
        found = timed(f"backend{arriving}", partial(_step, backend, plan))
        timed(f"reading{arriving}", partial(scheduler.apply, found))
    backend.close()
    lines = [
        f"{name:<22}{statistics.median(seconds) * 1e6:>8.0f} µs, {len(seconds)} times"
        for name, seconds in parts.items()
    ]
    return [*lines, f"{scheduler.outcomes.finished} sentences ended"]


def _encode(backend: ResidentBackend, plan: Plan) -> None:
    assert isinstance(plan.encode, Admission)
    backend.encode(plan.encode)


def _step(backend: ResidentBackend, plan: Plan) -> Ranked:
    assert isinstance(plan.step, Launch)
    return backend.step(plan.step)


def _rank(backend: ResidentBackend, rng: np.random.Generator, eos: int, ending: float) -> None:
    """Write random ranks where the next step of the device would write them."""
    block = backend._records[backend._turn]
    for name, (offset, shape, dtype) in backend._recorded.places.items():
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        raw = (ctypes.c_uint8 * size).from_address(block.address + offset)
        array = np.ctypeslib.as_array(raw).view(dtype).reshape(shape)
        if name == "rank_places":
            array[...] = rng.integers(0, 40, shape)
        elif name == "rank_tokens":
            ended = rng.random(shape) < ending
            # A row has one ending at most, so that there are ranks for all free positions.
            ended[:, shape[1] // 2 :] = False
            array[...] = np.where(ended, eos, rng.integers(6, 100, shape))
        elif name == "rank_sums":
            array[...] = -np.sort(rng.random(shape, np.float32) * 3, axis=1) - 1


if __name__ == "__main__":
    sys.exit(main())
