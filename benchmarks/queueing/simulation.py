"""Discrete-event simulation of one service: an event loop, and an engine that iterates.

A request waits for the event loop, is received, joins the engine's queue at its next iteration, is
decoded, waits for the event loop again and is answered. If both threads share one core, the event
loop preempts the engine, which has a lower priority (``service.thread_priority``). Otherwise each
has a core, or the engine has a GPU.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from benchmarks.queueing.costs import Costs, Work
from service.engine.batch_capacity import BatchBounds, BatchCapacity
from service.engine.types import Priority
from service.engine.waiting_queue import WaitingQueue

NEVER = math.inf

Lengths = tuple[tuple[int, int], ...]
"""Source tokens and decode steps of sentences."""


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
    caller: str = ""
    rows_cost: float = 1.0


@dataclass(frozen=True, slots=True)
class Site:
    """A service, and the sentences that it is sent."""

    about: str
    """Which machine, bundle and sentences; whether measured or assumed."""
    shape: Shape
    costs: Costs
    lengths: Lengths
    one_core: bool
    """Whether engine and event loop share a core; false for a GPU."""

    @property
    def capacity(self) -> float:
        """Sentences per second of one service with a permanently full queue."""
        flood = max(4 * len(self.lengths), 16 * self.shape.slots)
        return flood / self.predict([0.0] * flood).ended

    @property
    def alone_p99(self) -> float:
        """99th percentile of the latency of sentences alone in the service."""
        return percentile(map(self.alone, range(len(self.lengths))), 0.99)

    def alone(self, number: int) -> float:
        """Latency of request ``number`` alone in the service."""
        replica = Replica(self)
        replica.arrive(0.0, self.sentence(number))
        replica.advance(NEVER)
        return replica.latencies[number]

    def sentence(self, number: int) -> Sentence:
        """The sentence of request ``number``."""
        return Sentence(number, *self.lengths[number % len(self.lengths)])

    def predict(
        self, due: Iterable[float], slower: Callable[[float], float] = lambda _: 1.0
    ) -> Replica:
        """The service after it answered requests that were due at these non-decreasing times.

        ``slower`` returns the factor by which work that begins at a time exceeds its cost.
        """
        replica = Replica(self, slower)
        for number, at in enumerate(due):
            replica.arrive(at, self.sentence(number))
        replica.advance(NEVER)
        return replica


class Batch:
    """The batch of an engine: admits as the service does, and counts steps instead of searching.

    A test compares it with the service's scheduler and search.
    """

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._queue: WaitingQueue[Sentence] = WaitingQueue()
        self.running: list[Sentence] = []
        """By slot. The last one moves into a freed slot."""
        self._ends: dict[int, int] = {}
        """The iteration that completes a running sentence, by id."""
        self._iteration = 0

    @property
    def has_work(self) -> bool:
        return bool(self.running) or len(self._queue) > 0

    def add(self, sentence: Sentence) -> None:
        """Append a sentence to the queue."""
        self._queue.append(sentence)

    def begin(self) -> Work:
        """Admit sentences, and return the work of this iteration; call only if ``has_work``."""
        old_rows = len(self.running) * self._shape.beam_size
        admitted = self._admitted() if len(self._queue) else []
        for sentence in admitted:
            self.running.append(sentence)
            self._ends[sentence.id] = self._iteration + sentence.steps
        return Work(
            steps=1,
            # A newly admitted sentence has one row, which forks.
            rows=old_rows + len(admitted),
            encodes=int(bool(admitted)),
            source_tokens=sum(sentence.source_length for sentence in admitted),
        )

    def end(self) -> list[int]:
        """Ids of the sentences that complete in this iteration, in slot order."""
        self._iteration += 1
        leaving = [
            slot
            for slot, sentence in enumerate(self.running)
            if self._ends[sentence.id] == self._iteration
        ]
        completed = [self.running[slot].id for slot in leaving]
        for slot in reversed(leaving):
            last = self.running.pop()
            if slot < len(self.running):
                self.running[slot] = last
        for identifier in completed:
            del self._ends[identifier]
        return completed

    def _admitted(self) -> list[Sentence]:
        shape = self._shape
        # Rows as wide as the bundle's are bounded by the slots.
        bounds = BatchBounds(shape.slots, shape.max_batch_tokens, math.inf)
        capacity = BatchCapacity(bounds)
        for sentence in self.running:
            capacity.take(sentence)
        capacity.share_with(self._queue.callers)
        return self._queue.admit(capacity, shape.max_padded_tokens)


class Replica:
    """Drive it by ``arrive`` and ``advance`` with non-decreasing times."""

    def __init__(self, site: Site, slower: Callable[[float], float] = lambda _: 1.0) -> None:
        self._costs = site.costs
        self._one_core = site.one_core
        self._slower = slower
        self._batch = Batch(site.shape)
        self._arrived: dict[int, float] = {}
        self._inbox: list[Sentence] = []
        self._jobs: deque[tuple[Sentence | None, int]] = deque()
        """Event loop queue: a sentence to receive, or ``None`` and a request id to answer."""
        self._loop_ends = NEVER
        self._engine_ends = NEVER
        self._left = 0.0
        """Remaining seconds of a preempted iteration."""
        self._iterating = False
        self.latencies: dict[int, float] = {}
        """In seconds, by request, in the order of answers."""
        self.busy_seconds = 0.0
        """Processor time of both threads."""
        self.ended = 0.0
        """When the last request was answered."""

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
                self._end_iteration()
            self._go_on(now)

    def _end_job(self, now: float) -> None:
        sentence, identifier = self._jobs.popleft()
        self._loop_ends = NEVER
        if sentence is not None:
            self._inbox.append(sentence)
            return
        self.latencies[identifier] = now - self._arrived.pop(identifier) + self._costs.transit
        self.ended = now

    def _end_iteration(self) -> None:
        self._engine_ends, self._iterating = NEVER, False
        self._jobs.extend((None, identifier) for identifier in self._batch.end())

    def _go_on(self, now: float) -> None:
        """Start or continue the work of the event loop and the engine."""
        if self._jobs and self._loop_ends == NEVER:
            receiving = self._jobs[0][0] is not None
            cost = self._costs.receive if receiving else self._costs.answer
            self._loop_ends = now + self._seconds(cost, now)
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
            seconds = self._seconds(self._costs.of(self._batch.begin()), now)
            self._iterating, self._engine_ends = True, now + seconds

    def _seconds(self, cost: float, now: float) -> float:
        """Duration of work that begins now; counts it."""
        seconds = cost * self._slower(now)
        self.busy_seconds += seconds
        return seconds


def percentile(values: Iterable[float], share: float) -> float:
    """The least value that at least this share of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
