"""Decides, between two steps, which sentences enter the batch and which leave it.

There is no encode phase and no decode phase: every iteration encodes whoever has
just been admitted and then extends every live row by one token. The scheduler
makes decisions only; it never calls a model, reads a clock or blocks.

Sentences enter as long as a slot is free and the newcomers of one iteration, padded to the longest
of them, stay within ``max_padded_tokens``: one large encode would make everyone who is running
wait. Everyone's source padded to the longest stays within ``max_batch_tokens``: a step reads all of
it, so that a batch with long sentences is better narrower. Who enters first is the line's business,
see ``service.engine.waiting``. The slots in use are always the first ones: when a sentence leaves,
the last one moves into its slot.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from models.bundle.manifest import SpecialIds
from service.engine.errors import BackendFailed, BeamTooWide, ImpossiblePrefix, SentenceTooLong
from service.engine.observer import LeaveReason
from service.engine.search import Search
from service.engine.types import Decoded, DecodingOptions, Priority
from service.engine.waiting import Line
from service.runtime.backend import Candidates, EncodeBatch, Limits, StepBatch


@dataclass(slots=True, eq=False)
class Sequence:
    """A sentence on its way through the engine. ``source_ids`` ends with ``eos``."""

    id: int
    source_ids: tuple[int, ...]
    options: DecodingOptions
    priority: Priority = "interactive"
    request: int = 0
    """Whose it is: requests share the slots, see ``service.engine.fairness``."""
    arrived: float = 0.0
    """When it joined the line, on whichever clock the engine reads."""
    entered: float = 0.0
    """When it got its slot."""

    def __post_init__(self) -> None:
        if not self.source_ids:
            raise ValueError("source_ids is empty; it ends with eos at least")

    @property
    def source_length(self) -> int:
        """In tokens."""
        return len(self.source_ids)

    @property
    def work(self) -> int:
        """What decoding takes, about: as many rows as many times as there are source tokens."""
        return self.options.rows * max(self.source_length, self.options.min_decoding_length)


@dataclass(frozen=True, slots=True)
class Plan:
    """One iteration: carry out the moves, encode the admitted, if any, then step everyone."""

    moves: list[tuple[int, int]]
    """The sentence in the first slot of each pair is to be in the second, in this order."""
    admitted: list[Sequence]
    encode: EncodeBatch | None
    sequences: list[Sequence]
    """Everyone who is running, by slot."""
    step: StepBatch | None
    """``None`` if nobody is running."""


@dataclass(slots=True)
class Books:
    """What became of every sentence that was accepted; a refused one is in no column."""

    accepted: int = 0
    finished: int = 0
    failed: int = 0
    cancelled: int = 0


class Scheduler:
    def __init__(
        self,
        limits: Limits,
        special_ids: SpecialIds,
        *,
        max_padded_tokens: int = 4096,
        max_batch_tokens: int = 1 << 20,
    ) -> None:
        if max_padded_tokens < 1:
            raise ValueError("max_padded_tokens must be at least 1")
        self.limits = limits
        self.max_padded_tokens = max_padded_tokens
        self.max_batch_tokens = max_batch_tokens
        self.waiting: Line[Sequence] = Line()
        self.running: list[Sequence] = []
        """By slot."""
        self.books = Books()
        self._eos_id = special_ids.eos
        self._search = Search(limits, special_ids)
        self._moves: list[tuple[int, int]] = []
        self._cautious = False
        """Memory was short; nobody enters beside others until somebody has left."""

    @property
    def has_work(self) -> bool:
        return bool(self.running or len(self.waiting))

    def add(self, sequence: Sequence) -> None:
        """Put a sentence at the end of the line, or refuse it by name.

        A ``max_decoding_length`` beyond what the model can write is reduced to that;
        ``FinishReason.LENGTH`` tells whether it mattered.
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
        self.books.accepted += 1

    def abort(self, sequence_id: int, reason: LeaveReason = "cancelled") -> bool:
        """Forget a sentence wherever it is; true if it was in the batch.

        Unknown ids are ignored: it may just have finished.
        """
        for slot, sequence in enumerate(self.running):
            if sequence.id == sequence_id:
                self._release(slot, reason)
                return True
        if self.waiting.remove(sequence_id) is not None:
            self._enter(reason)
        return False

    def schedule(self) -> Plan:
        """Admit whoever fits, and plan the next iteration for everyone running."""
        first = len(self.running)
        free = self.limits.slots - first
        if self._cautious:
            free = 0 if self.running else 1
        longest_running = max((s.source_length for s in self.running), default=0)

        def fits(count: int, longest: int) -> bool:
            together = first + count
            padded = together * max(longest, longest_running)
            return together == 1 or padded <= self.max_batch_tokens

        admitted = self.waiting.admit(free, self.max_padded_tokens, fits)
        for sequence in admitted:
            self.running.append(sequence)
            self._search.add(sequence.options, sequence.source_length)
        encode = None
        if admitted:
            encode = EncodeBatch(first, [sequence.source_ids for sequence in admitted])
        return self._plan(admitted, encode)

    def reschedule(self) -> Plan:
        """Plan again for those still running, and admit nobody."""
        return self._plan([], None)

    def preempt(self, sequences: list[Sequence]) -> None:
        """Put some of the running back to the head of the line, to start over when there is room.

        Nobody enters beside others until somebody has left for good.
        """
        # From the last slot on, so that nobody who leaves is moved first.
        for sequence in sorted(sequences, key=self.running.index, reverse=True):
            self._vacate(self.running.index(sequence))
        for sequence in sorted(sequences, key=lambda sequence: sequence.id, reverse=True):
            self.waiting.prepend(sequence, sequence.request)
        self._cautious = True

    def apply(self, candidates: Candidates) -> list[tuple[Sequence, Decoded | BackendFailed]]:
        """Advance every search by a step's candidates; returns who leaves, and with what.

        A sentence for which the model computed no numbers fails, and no other does.
        """
        over = self._search.advance(candidates)
        leaving = [(self.running[slot], outcome) for slot, outcome in over]
        # From the last slot on, so that nobody who leaves is moved first.
        for slot, outcome in reversed(over):
            self._release(slot, "finished" if isinstance(outcome, Decoded) else "failed")
        return leaving

    def check_integrity(self) -> None:
        """No sentence is lost.

        Every running sentence has one slot and one search; every accepted sentence is waiting,
        running, or has left for one reason.
        """
        assert self._search.count == len(self.running) <= self.limits.slots
        assert self.waiting.tokens == sum(s.source_length for s in self.waiting)
        left = self.books.finished + self.books.failed + self.books.cancelled
        assert self.books.accepted == left + len(self.running) + len(self.waiting)

    def _plan(self, admitted: list[Sequence], encode: EncodeBatch | None) -> Plan:
        moves, self._moves = self._moves, []
        step = self._search.batch() if self.running else None
        return Plan(moves, admitted, encode, list(self.running), step)

    def _release(self, slot: int, reason: LeaveReason) -> None:
        self._vacate(slot)
        self._cautious = False
        self._enter(reason)

    def _vacate(self, slot: int) -> None:
        last = self._search.remove(slot)
        moved = self.running.pop()
        if slot != last:
            self.running[slot] = moved
            self._moves.append((last, slot))

    def _enter(self, reason: LeaveReason) -> None:
        """Enter a departure in the books."""
        match reason:
            case "finished":
                self.books.finished += 1
            case "failed":
                self.books.failed += 1
            case "cancelled":
                self.books.cancelled += 1
            case "preempted":
                raise AssertionError("who is preempted has not left the engine")
