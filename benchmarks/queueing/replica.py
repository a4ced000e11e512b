"""Discrete-event simulation of one service: an event loop, and an engine that iterates.

A request waits for the event loop, is received, joins the engine's queue at its next iteration, is
decoded, waits for the event loop again and is answered. If both threads share one core, the event
loop preempts the engine, which has a lower priority (``service.thread_priority``). Otherwise each
has a core, or the engine has a GPU.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

from benchmarks.queueing.batch import Batch, Sentence
from benchmarks.queueing.costs import Costs

NEVER = math.inf


class Replica:
    """Drive it by ``arrive`` and ``advance`` with non-decreasing times.

    ``slower`` returns the factor by which work that begins at a time exceeds its cost.
    """

    def __init__(
        self,
        batch: Batch,
        costs: Costs,
        *,
        one_core: bool,
        slower: Callable[[float], float] = lambda _: 1.0,
    ) -> None:
        self._batch = batch
        self._costs = costs
        self._one_core = one_core
        self._slower = slower
        self._arrived: dict[int, float] = {}
        self._inbox: list[Sentence] = []
        self._jobs: deque[tuple[Sentence | None, int]] = deque()
        """Event loop queue: a sentence to receive, or ``None`` and a request id to answer."""
        self._loop_ends = NEVER
        self._engine_ends = NEVER
        self._left = 0.0
        """Remaining seconds of a preempted iteration."""
        self._iterating = False
        self.latencies: list[tuple[int, float]] = []
        """Request id and latency, in the order of answers."""
        self.engine_seconds = 0.0
        self.loop_seconds = 0.0
        self.most_together = 0

    @property
    def ongoing(self) -> int:
        """Requests that have arrived and not been answered."""
        return len(self._arrived)

    @property
    def next_event(self) -> float:
        return min(self._loop_ends, self._engine_ends)

    def arrive(self, now: float, sentence: Sentence) -> None:
        self.advance(now)
        self._arrived[sentence.id] = now
        self._jobs.append((sentence, sentence.id))
        self._go_on(now)

    def advance(self, until: float) -> None:
        """Process all events up to and including a time."""
        while (now := self.next_event) <= until and now < NEVER:
            if self._loop_ends <= self._engine_ends:
                self._end_job(now)
            else:
                self._end_iteration(now)
            self._go_on(now)

    def _end_job(self, now: float) -> None:
        sentence, identifier = self._jobs.popleft()
        self._loop_ends = NEVER
        if sentence is not None:
            self._inbox.append(sentence)
        else:
            latency = now - self._arrived.pop(identifier) + self._costs.transit
            self.latencies.append((identifier, latency))

    def _end_iteration(self, now: float) -> None:
        self._engine_ends, self._iterating = NEVER, False
        self._jobs.extend((None, identifier) for identifier in self._batch.end())

    def _go_on(self, now: float) -> None:
        """Start or continue the work of the event loop and the engine."""
        if self._jobs and self._loop_ends == NEVER:
            receiving = self._jobs[0][0] is not None
            cost = self._costs.receive if receiving else self._costs.answer
            seconds = cost * self._slower(now)
            self._loop_ends = now + seconds
            self.loop_seconds += seconds
            if self._one_core and self._engine_ends < NEVER:
                self._left, self._engine_ends = self._engine_ends - now, NEVER
        if self._engine_ends < NEVER or (self._one_core and self._loop_ends < NEVER):
            return
        if self._iterating:
            self._engine_ends = now + self._left
            return
        for sentence in self._inbox:
            self._batch.add(sentence)
        self._inbox.clear()
        if self._batch.has_work:
            seconds = self._costs.of(self._batch.begin()) * self._slower(now)
            self.most_together = max(self.most_together, self._batch.running)
            self.engine_seconds += seconds
            self._iterating, self._engine_ends = True, now + seconds
