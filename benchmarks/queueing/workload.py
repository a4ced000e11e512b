"""Sentences of the queueing benchmark, with their measured number of decode steps."""

from __future__ import annotations

import json
from collections.abc import Sequence as Ordered
from dataclasses import dataclass
from pathlib import Path

from benchmarks import machine
from benchmarks.workloads import (
    Sentences,
    captions,
    languages,
    newstest_lengths,
    random_words,
    reader,
    written,
)
from models.bundle.bundle import Bundle
from models.bundle.manifest import Precision
from service.engine.scheduler import Scheduler, Sequence
from service.runtime.onnx import OnnxBackend
from service.translation.decoding import NO_OVERRIDES
from training.data.corpus import CorpusError

SENTENCES = 512
"""Large enough that equal sentences are never concurrent and never coalesced."""
SHORT = 4
PACKED = 8
_SLOTS = 32


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    bodies: tuple[str, ...]
    """Requests with one sentence each."""
    short_bodies: tuple[str, ...]
    """Requests with the same sentences, cut after ``SHORT`` steps. Rows and source tokens have
    another proportion here, which is needed to separate their costs."""
    packed_bodies: tuple[str, ...]
    """Requests with ``PACKED`` sentences each, so that one encode has more source tokens."""
    lengths: tuple[tuple[int, int], ...]
    """Source tokens, ``eos`` included, and decode steps of each."""


def measured_workload(bundle: Bundle, precision: Precision, data: Path) -> Workload:
    """Multi30k's captions, or random words if these are absent, with their true number of steps."""
    try:
        sentences, name = captions(bundle, data)[:SENTENCES], "captions of Multi30k"
    except CorpusError:
        lengths = [max(4, length // 2) for length in newstest_lengths(SENTENCES)]
        sentences, name = random_words(bundle, lengths), "random words"
    texts, pair = written(bundle, sentences), languages(bundle)
    # The tokenizer may segment random words differently.
    sources = tuple(map(reader(bundle), texts))
    return Workload(
        name,
        tuple(json.dumps({"q": text, **pair}) for text in texts),
        tuple(json.dumps({"q": text, **pair, "max_decoding_length": SHORT}) for text in texts),
        tuple(
            json.dumps({"q": texts[number : number + PACKED], **pair})
            for number in range(0, len(texts), PACKED)
        ),
        tuple(
            (len(source), steps)
            for source, steps in zip(sources, steps_of(bundle, precision, sources), strict=True)
        ),
    )


def steps_of(bundle: Bundle, precision: Precision, sources: Sentences) -> Ordered[int]:
    """Number of decode steps of each sentence with the bundle's decoding options."""
    manifest = bundle.manifest
    rows = manifest.decoding.beam_size
    backend = OnnxBackend.load(
        bundle, precision, slots=_SLOTS, rows_per_slot=rows, threads=machine.cores()
    )
    scheduler = Scheduler(backend.limits, manifest.special_ids)
    for number, source in enumerate(sources):
        options = NO_OVERRIDES.resolve(manifest.decoding, manifest.limits, len(source))
        scheduler.add(Sequence(number, source, options))
    steps = [0] * len(sources)
    try:
        while scheduler.has_work:
            plan = scheduler.schedule()
            for origin, slot in plan.moves:
                backend.move(origin, slot)
            if plan.encode is not None:
                backend.encode(plan.encode)
            assert plan.step is not None
            for sequence in plan.sequences:
                steps[sequence.id] += 1
            scheduler.apply(backend.step(plan.step))
    finally:
        backend.close()
    return steps
