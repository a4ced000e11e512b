"""Simulates an engine's batch: admissions, rows and completed sentences of each iteration.

There are two implementations. ``ScheduledBatch`` runs the service's scheduler and search on
candidates without end tokens, so that each sentence takes exactly its given number of steps.
``PlainBatch`` uses the service's queue and the same two admission bounds, but only counts steps. It
is several times as fast, for fleets. A test checks that both agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from benchmarks.queueing.costs import Work
from models.bundle.manifest import SpecialIds
from service.engine.scheduler import Scheduler, Sequence
from service.engine.types import DecodingOptions, Priority
from service.engine.waiting import Line
from service.runtime.backend import Candidates, Limits

_SPECIAL_IDS = SpecialIds(pad=0, unk=1, bos=2, eos=3)
_WORD = 4
"""Any token except ``eos``."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Capacity of an engine's batch, as in the service's settings."""

    slots: int = 64
    beam_size: int = 4
    max_padded_tokens: int = 4096
    max_batch_tokens: int = 1664


@dataclass(frozen=True, slots=True)
class Sentence:
    """``source_length`` includes ``eos``; ``steps`` is the number of decode steps."""

    id: int
    source_length: int
    steps: int
    priority: Priority = "interactive"


class Batch(Protocol):
    @property
    def has_work(self) -> bool: ...

    @property
    def running(self) -> int:
        """Sentences in the batch."""

    def add(self, sentence: Sentence) -> None:
        """Append a sentence to the queue."""

    def begin(self) -> Work:
        """Admit sentences, and return the work of this iteration; call only if ``has_work``."""

    def end(self) -> list[int]:
        """Ids of the sentences that complete in this iteration."""


class ScheduledBatch:
    """The service's scheduler and search, without a model."""

    def __init__(self, shape: Shape) -> None:
        self._beam_size = shape.beam_size
        limits = Limits(shape.slots, shape.beam_size, source_length=1 << 16, target_length=1 << 10)
        self._scheduler = Scheduler(
            limits,
            _SPECIAL_IDS,
            max_padded_tokens=shape.max_padded_tokens,
            max_batch_tokens=shape.max_batch_tokens,
        )
        self._candidates: Candidates | None = None

    @property
    def has_work(self) -> bool:
        return self._scheduler.has_work

    @property
    def running(self) -> int:
        return len(self._scheduler.running)

    def add(self, sentence: Sentence) -> None:
        source_ids = (_WORD,) * (sentence.source_length - 1) + (_SPECIAL_IDS.eos,)
        options = DecodingOptions(
            beam_size=self._beam_size, max_decoding_length=sentence.steps, return_scores=False
        )
        self._scheduler.add(Sequence(sentence.id, source_ids, options, sentence.priority))

    def begin(self) -> Work:
        plan = self._scheduler.schedule()
        assert plan.step is not None
        sentences, rows = plan.step.parents_BK.shape
        shape = sentences, rows, plan.step.num_candidates
        log_probs_BKN = np.broadcast_to(-1 - np.arange(shape[2], dtype=np.float32), shape)
        asked_BK = np.zeros(shape[:2], np.float32)
        self._candidates = Candidates(np.full(shape, _WORD), log_probs_BKN, asked_BK)
        return Work(
            steps=1,
            rows=int(np.count_nonzero(plan.step.parents_BK >= 0)),
            encodes=int(bool(plan.admitted)),
            source_tokens=sum(sequence.source_length for sequence in plan.admitted),
        )

    def end(self) -> list[int]:
        assert self._candidates is not None
        return [sequence.id for sequence, _ in self._scheduler.apply(self._candidates)]


class PlainBatch:
    """Counts steps instead of searching."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._line: Line[Sentence] = Line()
        self._running: dict[int, int] = {}
        """Source length, by id."""
        self._slots: list[int] = []
        """Ids by slot; sentences that complete together are answered in slot order."""
        self._leaving: dict[int, list[int]] = {}
        """Ids by the iteration that completes them."""
        self._iteration = 0

    @property
    def has_work(self) -> bool:
        return bool(self._running) or len(self._line) > 0

    @property
    def running(self) -> int:
        return len(self._running)

    def add(self, sentence: Sentence) -> None:
        self._line.append(sentence)

    def begin(self) -> Work:
        old = len(self._running)
        admitted = self._admitted() if len(self._line) else []
        for sentence in admitted:
            self._running[sentence.id] = sentence.source_length
            self._slots.append(sentence.id)
            last = self._iteration + sentence.steps - 1
            self._leaving.setdefault(last, []).append(sentence.id)
        return Work(
            steps=1,
            # A newly admitted sentence has one row, which forks.
            rows=old * self._shape.beam_size + len(admitted),
            encodes=int(bool(admitted)),
            source_tokens=sum(sentence.source_length for sentence in admitted),
        )

    def end(self) -> list[int]:
        leaving = self._leaving.pop(self._iteration, [])
        self._iteration += 1
        slots = sorted(map(self._slots.index, leaving))
        ordered = [self._slots[slot] for slot in slots]
        for slot in reversed(slots):
            del self._running[self._slots[slot]]
            last = self._slots.pop()
            if slot < len(self._slots):
                self._slots[slot] = last
        return ordered

    def _admitted(self) -> list[Sentence]:
        old, shape = len(self._running), self._shape
        longest_running = max(self._running.values(), default=0)

        def fits(count: int, longest: int) -> bool:
            together = old + count
            return together == 1 or (
                together * max(longest, longest_running) <= shape.max_batch_tokens
            )

        return self._line.admit(shape.slots - old, shape.max_padded_tokens, fits)
