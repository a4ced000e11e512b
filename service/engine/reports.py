"""Computes the observer events of the engine loop from plans, batches and outcomes."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import numpy as np

from service.engine.errors import EngineError
from service.engine.observer import EngineObserver, LeaveReason
from service.engine.scheduler import Plan, Scheduler, Sequence
from service.engine.types import Decoded, FinishReason
from service.runtime.backend import CacheUse, EncodeBatch, StepBatch

_NOTHING = CacheUse(0, 0)


class Reports:
    """Reports events to one observer. Only the engine thread calls it, between two steps."""

    def __init__(self, observer: EngineObserver, scheduler: Scheduler) -> None:
        self._observer = observer
        self._scheduler = scheduler
        self._use = _NOTHING

    @contextmanager
    def working(self) -> Iterator[None]:
        """Time one iteration. An iteration that raises is not reported."""
        start = time.perf_counter()
        yield
        self._observer.worked(time.perf_counter() - start)

    def died(self) -> None:
        self._observer.died()

    def use(self, use: CacheUse = _NOTHING) -> None:
        """Report the size of the key/value cache, if it has changed."""
        if use != self._use:
            self._observer.cached(use.taken, use.limit)
            self._use = use

    def waiting(self) -> None:
        waiting = self._scheduler.waiting
        self._observer.waiting(len(waiting), waiting.tokens)

    def joined(self, plan: Plan) -> None:
        """Report the admitted sentences, and set the time of admission of each."""
        at = time.perf_counter()
        for sequence in plan.admitted:
            sequence.entered = at
        waited = [at - sequence.arrived for sequence in plan.admitted]
        self._observer.joined(len(waited), waited, len(plan.sequences) - len(waited))
        self.waiting()

    def encoded(self, batch: EncodeBatch, seconds: float) -> None:
        lengths = [len(source) for source in batch.sources]
        self._observer.encoded(len(lengths), max(lengths) * len(lengths), sum(lengths), seconds)

    def stepped(self, batch: StepBatch, sentences: int, seconds: float) -> None:
        rows = int(np.count_nonzero(batch.parents_BK >= 0))
        self._observer.stepped(rows, sentences, seconds)

    def left(self, reason: LeaveReason, count: int) -> None:
        """Report ``count`` sentences that the scheduler has already removed."""
        if count:
            self._observer.left(reason, count, len(self._scheduler.running))

    def ended(self, outcomes: Collection[tuple[Sequence, Decoded | EngineError]]) -> None:
        """Report sentences that left the batch with a translation or a failure."""
        failed = 0
        for sequence, outcome in outcomes:
            if isinstance(outcome, EngineError):
                failed += 1
                continue
            target_tokens = len(outcome.hypotheses[0].token_ids)
            if outcome.finish_reason is FinishReason.COMPLETE:
                target_tokens += 1
            self._observer.finished(outcome.finish_reason, len(sequence.source_ids), target_tokens)
        self.left("failed", failed)
        self.left("finished", len(outcomes) - failed)
