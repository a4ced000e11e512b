"""One service: an event loop that receives and answers, and an engine that iterates.

Time is simulated. A request waits for the event loop, is received, joins the engine's line at its
next iteration, is decoded, waits for the event loop again and is answered. Where both threads share
one core, the event loop's work holds up the engine's, because the engine has stepped aside
(``service.thread_priority``); otherwise each has a core, or the engine has a GPU.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

from benchmarks.queueing.batch import Batch, Sentence
from benchmarks.queueing.costs import Costs

NEVER = math.inf


class Replica:
    """Drive it by ``arrive`` and ``advance`` with times that never go back.

    ``slower`` says how many times its costs work takes that begins at a moment.
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
        """Of the event loop: who is to be received, or nobody and the id of who is answered."""
        self._loop_ends = NEVER
        self._engine_ends = NEVER
        self._left = 0.0
        """Of an iteration that is held up, in seconds."""
        self._iterating = False
        self.latencies: list[tuple[int, float]] = []
        """By request, in the order of answers."""
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
        """Everything that happens up to and including a moment."""
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
        """Give the cores to whoever wants them next."""
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
