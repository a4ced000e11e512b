"""Speed comparison of our engine and CTranslate2, running the same work alternately.

CTranslate2 runs in its fastest setting. Each engine has its own process and sleeps while the other
works. Consecutive runs are compared as pairs. Pairs that other processes disturbed are measured
again. Pairs are selected by disturbance, never by speed.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from benchmarks import machine
from benchmarks.engines import SETTINGS, CTranslate2, Dragoman, Search
from benchmarks.peers.ctranslate2 import COMPUTE_TYPE, converted
from benchmarks.worker import Done, EngineFailed, Worker
from benchmarks.workloads import Workload
from models.bundle.bundle import Bundle
from models.bundle.manifest import Precision
from service.runtime import processor

MAX_DECODING_LENGTH = 192

# CTranslate2's threads spin for a while after their work.
_PAUSE_SECONDS = 0.4
_LONGEST_WAIT_SECONDS = 20.0
_HOPELESS = 2.0
"""A setting slower than the best by this factor is not tried in the following cells."""


@dataclass(frozen=True, slots=True)
class Cell:
    workload: str
    precision: Precision
    beam_size: int

    @property
    def name(self) -> str:
        return f"{self.workload}/{self.precision}/{self.beam_size}"


@dataclass(frozen=True, slots=True)
class Pair:
    """Consecutive runs of the same work by both engines."""

    ours: Done
    theirs: Done

    @property
    def ratio(self) -> float:
        return self.ours.tokens_per_second / self.theirs.tokens_per_second

    @property
    def others_cores(self) -> float:
        return max(self.ours.others_cores or 0.0, self.theirs.others_cores or 0.0)


@dataclass(frozen=True, slots=True)
class Result:
    """A measured cell; speeds in target tokens per second, ``eos`` counted."""

    cell: str
    ours: float
    theirs: float
    setting: str
    ratio: float
    lowest_ratio: float
    highest_ratio: float
    pairs: int
    same: float
    """Share of sentences that both engines translate to the same tokens."""
    others_cores: float
    """Maximum of the cores that other processes used during a selected run."""


class LengthsDiffer(Exception):
    """An engine's output length differs from the one that the base network's weights define."""


class Contest:
    """Our engine and CTranslate2 in each of its settings, with one model in one precision."""

    def __init__(self, bundle: Bundle, precision: Precision, threads: int, cache: Path) -> None:
        self._bundle = bundle
        self._precision = precision
        self._threads = threads
        self._cache = cache
        self._stack = ExitStack()
        self._last: dict[str, Done] = {}

    def __enter__(self) -> Self:
        bundle, precision, threads = self._bundle, self._precision, self._threads
        model = converted(bundle, precision, self._cache)
        with ExitStack() as stack:
            self._ours = stack.enter_context(Worker(Dragoman(bundle.path, precision, threads)))
            self._theirs: list[Worker] = []
            for setting in SETTINGS:
                engine = CTranslate2(model, COMPUTE_TYPE[precision], threads, setting)
                try:
                    self._theirs.append(stack.enter_context(Worker(engine)))
                except EngineFailed as error:
                    print(f"left out: {error}", file=sys.stderr)
            if not self._theirs:
                raise EngineFailed("ctranslate2 runs in none of its settings")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def measure(self, cell: Cell, work: Workload, pairs: int) -> Result:
        """Measure a cell: try the settings, then run pairs until enough are undisturbed."""
        length = min(MAX_DECODING_LENGTH, self._bundle.manifest.limits.target_length)
        search = Search(cell.beam_size, length)
        peer = self._best_setting(work, search)
        self._run(self._ours, work, search)
        measured: list[Pair] = []
        while len(measured) < 2 * pairs:
            machine.wait_until_quiet(_LONGEST_WAIT_SECONDS)
            first = self._run(peer, work, search)
            measured.append(Pair(self._run(self._ours, work, search), first))
            quiet = sum(pair.others_cores <= processor.QUIET_CORES for pair in measured)
            if quiet >= pairs:
                break
        counted = least_disturbed(measured, pairs)
        ratios = [pair.ratio for pair in counted]
        assert isinstance(peer.engine, CTranslate2)
        return Result(
            cell=cell.name,
            ours=statistics.median(pair.ours.tokens_per_second for pair in counted),
            theirs=statistics.median(pair.theirs.tokens_per_second for pair in counted),
            setting=peer.engine.setting,
            ratio=statistics.median(ratios),
            lowest_ratio=min(ratios),
            highest_ratio=max(ratios),
            pairs=len(counted),
            same=_same(counted[-1]),
            others_cores=max(pair.others_cores for pair in counted),
        )

    def memories(self) -> dict[str, dict[str, machine.Memory | None]]:
        """Memory by engine: when it was opened, and after its last work."""
        return {
            f"{self._bundle.manifest.name} {self._precision} {worker.engine.label}": {
                "opened": worker.memory_when_opened,
                "worked": self._last[worker.engine.label].memory,
            }
            for worker in (self._ours, *self._theirs)
        }

    def _best_setting(self, work: Workload, search: Search) -> Worker:
        """Try every setting with some of the work, and drop the slow ones."""
        trial = replace(work, batches=work.batches[:2])
        seconds = []
        for worker in self._theirs:
            self._run(worker, trial, search)
            seconds.append(self._run(worker, trial, search).seconds)
        best = min(seconds)
        chosen = self._theirs[seconds.index(best)]
        self._theirs = [
            worker
            for worker, each in zip(self._theirs, seconds, strict=True)
            if each <= _HOPELESS * best
        ]
        return chosen

    def _run(self, worker: Worker, work: Workload, search: Search) -> Done:
        time.sleep(_PAUSE_SECONDS)
        done = worker.translate(work.batches, search)
        self._last[worker.engine.label] = done
        if self._bundle.manifest.name == "base":
            check_lengths(worker.engine.label, work, done)
        return done


def least_disturbed(measured: Sequence[Pair], count: int) -> list[Pair]:
    """The selected pairs: chosen by disturbance, never by speed."""
    return sorted(measured, key=lambda pair: pair.others_cores)[:count]


def check_lengths(engine: str, work: Workload, done: Done) -> None:
    """Raises ``LengthsDiffer`` unless every translation has as many tokens as its source."""
    for sources, targets in zip(work.batches, done.translations, strict=True):
        for source, target in zip(sources, targets, strict=True):
            if len(target) + 1 != len(source):
                raise LengthsDiffer(
                    f"{engine} wrote {len(target) + 1} tokens for a source of {len(source)} in "
                    f"{work.name}: it does not compute the base network, or ends it elsewhere"
                )


def _same(pair: Pair) -> float:
    ours = [each for batch in pair.ours.translations for each in batch]
    peer = [each for batch in pair.theirs.translations for each in batch]
    return sum(a == b for a, b in zip(ours, peer, strict=True)) / len(ours)
