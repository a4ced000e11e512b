"""Continuous-batching scheduler: assigns sentences to slots and plans each iteration.

There is no encode phase and no decode phase. Every iteration encodes the newly admitted sentences
and then extends every live row by one token. The scheduler never calls a model, reads a clock or
blocks.

A sentence is admitted while a slot is free and bounds hold. The padded tokens of one encode stay
within ``max_padded_tokens``, because all running sentences wait for it. The padded source tokens
and the rows of the whole batch stay within ``max_batch_tokens`` and ``max_batch_rows``, because
every step computes all of them. ``service.engine.waiting_queue`` decides the order of admission,
``service.engine.batch_capacity`` the share of a caller. If the sentence of another caller does not
fit, sentences of callers above their share go back to the queue. The slots in use are always the
first ones: when a sentence leaves, the last one moves into its slot.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

from models.bundle.manifest import SpecialIds
from service.engine.batch_capacity import BatchBounds, BatchCapacity
from service.engine.errors import BackendFailed, BeamTooWide, ImpossiblePrefix, SentenceTooLong
from service.engine.iteration import LeaveReason
from service.engine.search import Search
from service.engine.types import Decoded, DecodingOptions, Priority, row_cost
from service.engine.waiting_queue import WaitingQueue
from service.runtime.backend import (
    Admission,
    Candidates,
    EncodeBatch,
    Launch,
    Limits,
    Ranked,
    StepBatch,
)


@dataclass(slots=True, eq=False)
class Sequence:
    """A sentence on its way through the engine. ``source_ids`` ends with ``eos``."""

    id: int
    source_ids: tuple[int, ...]
    options: DecodingOptions
    priority: Priority = "interactive"
    request: int = 0
    """Number of its request. Requests share the slots, see ``service.engine.waiting_queue``."""
    caller: str = ""
    """Caller of its request. Callers share the rows, see ``service.engine.batch_capacity``."""
    arrived: float = 0.0
    """Time of arrival in the waiting queue, on the engine's clock."""
    entered: float = 0.0
    """Time of admission to a slot."""
    rows_cost: float = field(init=False)
    """Cost in a step, in rows of beam search."""

    def __post_init__(self) -> None:
        if not self.source_ids:
            raise ValueError("source_ids is empty; it ends with eos at least")
        self.rows_cost = self.options.rows * row_cost(self.options.sampling_topk)

    @property
    def source_length(self) -> int:
        """Number of source tokens."""
        return len(self.source_ids)

    @property
    def work(self) -> float:
        """Approximate decoding cost: of a step, times the larger of source and minimum length."""
        return self.rows_cost * max(self.source_length, self.options.min_decoding_length)


@dataclass(frozen=True, slots=True)
class Plan:
    """One iteration: execute the moves, encode the admitted sentences, then step all running."""

    moves: list[tuple[int, int]]
    """Pairs of slots: move the sentence from the first to the second, in this order."""
    displaced: list[Sequence]
    """Sentences that went back to the waiting queue to make room, before the admission."""
    admitted: list[Sequence]
    encode: EncodeBatch | Admission | None
    sequences: list[Sequence]
    """All running sentences, by slot."""
    step: StepBatch | Launch | None
    """``None`` if no sentence is running."""


@dataclass(slots=True)
class OutcomeCounts:
    """Counts of accepted sentences by outcome. Refused sentences are not counted."""

    accepted: int = 0
    finished: int = 0
    failed: int = 0
    cancelled: int = 0


class BatchScheduler(ABC):
    """Owns the waiting queue, the slots and the search state. Only the engine thread calls it."""

    def __init__(
        self,
        limits: Limits,
        special_ids: SpecialIds,
        *,
        max_padded_tokens: int = 4096,
        max_batch_tokens: int = 1 << 20,
        max_batch_rows: float = math.inf,
    ) -> None:
        if max_padded_tokens < 1:
            raise ValueError("max_padded_tokens must be at least 1")
        self.limits = limits
        self.max_padded_tokens = max_padded_tokens
        self._bounds = BatchBounds(limits.slots, max_batch_tokens, max_batch_rows)
        self.waiting: WaitingQueue[Sequence] = WaitingQueue()
        self.running: list[Sequence] = []
        """Running sentences by slot."""
        self.outcomes = OutcomeCounts()
        self._eos_id = special_ids.eos
        self._capacity = BatchCapacity(self._bounds)
        self._moves: list[tuple[int, int]] = []
        self._cautious = False
        """Whether memory was short: at most one sentence then runs until one has left the batch."""

    @property
    def has_work(self) -> bool:
        return bool(self.running or len(self.waiting))

    def add(self, sequence: Sequence) -> None:
        """Add a sentence to the waiting queue. Raises an ``EngineError`` that says why not.

        A ``max_decoding_length`` above the model's limit is reduced to the limit.
        ``FinishReason.LENGTH`` shows that the limit was reached.
        """
        options, limits = sequence.options, self.limits
        if sequence.source_length > limits.source_length:
            raise SentenceTooLong(sequence.source_length, limits.source_length)
        if options.rows > limits.rows_per_slot:
            raise BeamTooWide(options.rows, limits.rows_per_slot)
        if self._eos_id in options.target_prefix:
            raise ImpossiblePrefix("target_prefix must not hold the token that ends a translation")
        if options.max_decoding_length > limits.target_length:
            if max(len(options.target_prefix) + 1, options.min_decoding_length) > (
                limits.target_length
            ):
                raise ImpossiblePrefix(
                    f"the model writes at most {limits.target_length} tokens, "
                    "which target_prefix or min_decoding_length exceeds"
                )
            sequence.options = replace(options, max_decoding_length=limits.target_length)
        self.waiting.append(sequence, sequence.request, sequence.work)
        self.outcomes.accepted += 1

    def abort(self, sequence_id: int, reason: LeaveReason = "cancelled") -> bool:
        """Remove a waiting or running sentence; true if it was in the batch.

        Unknown ids are ignored, because the sentence may just have finished.
        """
        for slot, sequence in enumerate(self.running):
            if sequence.id == sequence_id:
                self._release(slot, reason)
                return True
        if self.waiting.remove(sequence_id) is not None:
            self._enter(reason)
        return False

    def schedule(self) -> Plan:
        """Admit the sentences that fit, and plan the next iteration."""
        if not len(self.waiting) or (self._cautious and self.running):
            return self.reschedule()
        self._capacity.share_with(self.waiting.callers)
        displaced = self._make_room()
        if self._cautious:
            # Nothing runs. Later iterations count the sentence against the usual capacity.
            (alone,) = self.waiting.admit(
                BatchCapacity(replace(self._bounds, slots=1)), self.max_padded_tokens
            )
            self._capacity.take(alone)
            admitted = [alone]
        else:
            admitted = self.waiting.admit(self._capacity, self.max_padded_tokens)
        self.running += admitted
        return self._plan(displaced, admitted, self._begin(admitted) if admitted else None)

    def accepts(self, options: DecodingOptions) -> bool:
        """Whether a sentence with these options can be decoded. Usable on any thread."""
        return True

    def reschedule(self) -> Plan:
        """Plan again for the running sentences, without admission."""
        return self._plan([], [], None)

    def dispensable(self) -> list[Sequence]:
        """Half of the running sentences, without which a step needs less memory: the latest."""
        return sorted(self.running, key=lambda s: s.id)[len(self.running) // 2 :]

    def preempt(self, sequences: list[Sequence]) -> None:
        """Move running sentences back to the head of the waiting queue, to start over later.

        At most one sentence is then running until one has left the engine.
        """
        self._return(sequences)
        self._cautious = True

    def _make_room(self) -> list[Sequence]:
        """Preempt sentences for a caller that has none in the batch, where it would not fit.

        Those of callers above their share, the latest first; none if that would not suffice.
        """
        capacity = self._capacity
        waiting = self.waiting.first_interactive(capacity.serves)
        if waiting is None:
            return []
        leaving: list[Sequence] = []
        for sequence in sorted(self.running, key=lambda s: (s.entered, s.id), reverse=True):
            if capacity.fits(waiting):
                break
            if capacity.can_spare(sequence):
                capacity.release(sequence)
                leaving.append(sequence)
        enough = capacity.fits(waiting)
        for sequence in leaving:
            capacity.take(sequence)
        if not enough:
            return []
        self._return(leaving)
        return leaving

    def _return(self, sequences: list[Sequence]) -> None:
        """Move running sentences back to the waiting queue."""
        # Last slot first: removing a sentence then never moves another one to be removed.
        for sequence in sorted(sequences, key=self.running.index, reverse=True):
            self._leave(self.running.index(sequence))
        for sequence in sorted(sequences, key=lambda sequence: sequence.id, reverse=True):
            self.waiting.prepend(sequence, sequence.request)

    def apply(self, found: Candidates | Ranked) -> list[tuple[Sequence, Decoded | BackendFailed]]:
        """Advance every search by a step's results; returns finished sentences with translations.

        NaN in the output for a sentence fails that sentence only.
        """
        over = sorted(self._advance(found), key=itemgetter(0))
        leaving = [(self.running[slot], outcome) for slot, outcome in over]
        # Last slot first: removing a sentence then never moves another one to be removed.
        for slot, outcome in reversed(over):
            self._release(slot, "finished" if isinstance(outcome, Decoded) else "failed")
        return leaving

    def check_integrity(self) -> None:
        """Assert that no sentence is lost.

        Every running sentence has one slot and one search. Every accepted sentence is waiting,
        running, or has left for one reason.
        """
        assert self._searches == len(self.running) <= self.limits.slots
        assert self._capacity.slots == self.limits.slots - len(self.running)
        assert self.waiting.tokens == sum(s.source_length for s in self.waiting)
        left = self.outcomes.finished + self.outcomes.failed + self.outcomes.cancelled
        assert self.outcomes.accepted == left + len(self.running) + len(self.waiting)

    def _plan(
        self,
        displaced: list[Sequence],
        admitted: list[Sequence],
        encode: EncodeBatch | Admission | None,
    ) -> Plan:
        moves, self._moves = self._moves, []
        return Plan(moves, displaced, admitted, encode, list(self.running), self._step())

    @property
    @abstractmethod
    def _searches(self) -> int:
        """Number of searches, after ``apply``."""

    @abstractmethod
    def _begin(self, admitted: list[Sequence]) -> EncodeBatch | Admission:
        """Begin the searches of sentences that have just been appended to ``running``."""

    @abstractmethod
    def _step(self) -> StepBatch | Launch | None:
        """The next step; ``None`` if no sentence is running."""

    @abstractmethod
    def _advance(self, found: Candidates | Ranked) -> list[tuple[int, Decoded | BackendFailed]]:
        """Advance every search; returns places in ``running`` and results of finished ones."""

    @abstractmethod
    def _vacate(self, place: int) -> None:
        """Remove a sentence from ``running``; the last one takes its place."""

    def _release(self, slot: int, reason: LeaveReason) -> None:
        self._leave(slot)
        self._cautious = False
        self._enter(reason)

    def _leave(self, slot: int) -> None:
        self._capacity.release(self.running[slot])
        self._vacate(slot)

    def _enter(self, reason: LeaveReason) -> None:
        """Count a departure."""
        match reason:
            case "finished":
                self.outcomes.finished += 1
            case "failed":
                self.outcomes.failed += 1
            case "cancelled":
                self.outcomes.cancelled += 1
            case "preempted" | "displaced":
                raise AssertionError(f"a {reason} sentence has not left the engine")


class Scheduler(BatchScheduler):
    """Plans for a ``service.runtime.backend.Backend``, which accepts every search."""

    def __init__(self, limits: Limits, special_ids: SpecialIds, **bounds: Any) -> None:
        """``bounds`` as of ``BatchScheduler``."""
        super().__init__(limits, special_ids, **bounds)
        self._search = Search(limits, special_ids)

    @property
    def _searches(self) -> int:
        return self._search.count

    def _begin(self, admitted: list[Sequence]) -> EncodeBatch:
        first = self._search.count
        for sequence in admitted:
            self._search.add(sequence.options, sequence.source_length)
        return EncodeBatch(first, [sequence.source_ids for sequence in admitted])

    def _step(self) -> StepBatch | None:
        return self._search.batch() if self.running else None

    def _advance(self, found: Candidates | Ranked) -> list[tuple[int, Decoded | BackendFailed]]:
        assert isinstance(found, Candidates)
        return self._search.advance(found)

    def _vacate(self, place: int) -> None:
        last = self._search.remove(place)
        moved = self.running.pop()
        if place != last:
            self.running[place] = moved
            self._moves.append((last, place))
