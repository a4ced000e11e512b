"""Decides, between two steps, which sentences enter the batch and which leave it.

There is no encode phase and no decode phase: every iteration encodes whoever has
just been admitted and then extends every live row by one token. The scheduler
makes decisions only; it never calls a model, reads a clock or blocks.

Sentences enter first come, first served, as long as a slot is free and the newcomers
of one iteration, padded to the longest of them, stay within ``max_padded_tokens``: one
large encode would make everyone who is running wait. The first in line always enters.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace

import numpy as np

from service.engine.beam import Beam
from service.engine.errors import BackendFailed, BeamTooWide, SentenceTooLong
from service.engine.observer import LeaveReason
from service.engine.types import Decoded, DecodingOptions
from service.runtime.backend import Candidates, EncodeBatch, Limits, StepBatch


@dataclass(slots=True)
class Sequence:
    """A sentence on its way through the engine. ``source_ids`` ends with ``eos``."""

    id: int
    source_ids: tuple[int, ...]
    options: DecodingOptions
    beam: Beam = field(init=False)
    slot: int = -1

    def __post_init__(self) -> None:
        if not self.source_ids:
            raise ValueError("source_ids is empty; it ends with eos at least")


@dataclass(frozen=True, slots=True)
class Plan:
    """One iteration: encode the admitted, if any, then step everyone in ``sequences``."""

    admitted: list[Sequence]
    encode: EncodeBatch | None
    sequences: list[Sequence]
    step: StepBatch


@dataclass(slots=True)
class Books:
    """What became of every sentence that was accepted; a refused one is in no column."""

    accepted: int = 0
    finished: int = 0
    failed: int = 0
    cancelled: int = 0


class Scheduler:
    def __init__(
        self, limits: Limits, *, bos_id: int, eos_id: int, max_padded_tokens: int = 4096
    ) -> None:
        if max_padded_tokens < 1:
            raise ValueError("max_padded_tokens must be at least 1")
        self.limits = limits
        self.bos_id = bos_id
        self.eos_id = eos_id
        self.max_padded_tokens = max_padded_tokens
        self.waiting: OrderedDict[int, Sequence] = OrderedDict()
        self.waiting_tokens = 0
        self.running: dict[int, Sequence] = {}
        self.books = Books()
        self._free_slots = list(reversed(range(limits.slots)))

    @property
    def has_work(self) -> bool:
        return bool(self.waiting or self.running)

    def add(self, sequence: Sequence) -> None:
        """Put a sentence at the end of the line, or refuse it by name.

        A ``max_decoding_length`` beyond what the model can write is reduced to that;
        ``FinishReason.LENGTH`` tells whether it mattered.
        """
        options, limits = sequence.options, self.limits
        if len(sequence.source_ids) > limits.source_length:
            raise SentenceTooLong(len(sequence.source_ids), limits.source_length)
        if options.beam_size > limits.rows_per_slot:
            raise BeamTooWide(options.beam_size, limits.rows_per_slot)
        if options.max_decoding_length > limits.target_length:
            sequence.options = replace(options, max_decoding_length=limits.target_length)
        sequence.beam = Beam(sequence.options, self.bos_id, self.eos_id)
        self.waiting[sequence.id] = sequence
        self.waiting_tokens += len(sequence.source_ids)
        self.books.accepted += 1

    def abort(self, sequence_id: int, reason: LeaveReason = "cancelled") -> bool:
        """Forget a sentence wherever it is; true if it was in the batch.

        Unknown ids are ignored: it may just have finished.
        """
        if sequence_id in self.running:
            self._release(self.running[sequence_id], reason)
            return True
        if sequence_id in self.waiting:
            sequence = self.waiting.pop(sequence_id)
            self.waiting_tokens -= len(sequence.source_ids)
            self._enter(reason)
        return False

    def schedule(self) -> Plan:
        """Admit whoever fits, and plan the next iteration for everyone running."""
        return self._plan(self._admit())

    def reschedule(self) -> Plan:
        """Plan again for those still running, and admit nobody."""
        return self._plan([])

    def apply(
        self, plan: Plan, candidates: Candidates
    ) -> list[tuple[Sequence, Decoded | BackendFailed]]:
        """Show each beam its candidates; returns who leaves the batch, and with what.

        A sentence for which the model computed no numbers fails, and no other does.
        """
        leaving: list[tuple[Sequence, Decoded | BackendFailed]] = []
        start = 0
        for sequence in plan.sequences:
            beam = sequence.beam
            rows = slice(start, start + len(beam.live))
            start = rows.stop
            log_probs_NK = candidates.log_probs_NK[rows]
            if np.isnan(log_probs_NK).any():
                self._release(sequence, "failed")
                failure = BackendFailed("the model's output for this sentence is not a number")
                leaving.append((sequence, failure))
                continue
            beam.advance(candidates.token_ids_NK[rows], log_probs_NK)
            if beam.done:
                self._release(sequence, "finished")
                leaving.append((sequence, beam.result()))
        return leaving

    def check_integrity(self) -> None:
        """No slot and no sentence is lost.

        Every slot is either free or held by exactly one running sentence; every accepted
        sentence is waiting, running, or has left for one reason.
        """
        held = [sequence.slot for sequence in self.running.values()]
        assert sorted(held + self._free_slots) == list(range(self.limits.slots))
        assert self.waiting_tokens == sum(len(s.source_ids) for s in self.waiting.values())
        left = self.books.finished + self.books.failed + self.books.cancelled
        assert self.books.accepted == left + len(self.running) + len(self.waiting)

    def _admit(self) -> list[Sequence]:
        admitted: list[Sequence] = []
        longest = 0
        while self.waiting and self._free_slots:
            sequence = next(iter(self.waiting.values()))
            longest = max(longest, len(sequence.source_ids))
            if admitted and longest * (len(admitted) + 1) > self.max_padded_tokens:
                break
            del self.waiting[sequence.id]
            self.waiting_tokens -= len(sequence.source_ids)
            sequence.slot = self._free_slots.pop()
            self.running[sequence.id] = sequence
            admitted.append(sequence)
        return admitted

    def _release(self, sequence: Sequence, reason: LeaveReason) -> None:
        del self.running[sequence.id]
        self._free_slots.append(sequence.slot)
        self._enter(reason)

    def _enter(self, reason: LeaveReason) -> None:
        """Enter a departure in the books."""
        match reason:
            case "finished":
                self.books.finished += 1
            case "failed":
                self.books.failed += 1
            case "cancelled":
                self.books.cancelled += 1

    def _plan(self, admitted: list[Sequence]) -> Plan:
        encode = None
        if admitted:
            encode = EncodeBatch([s.slot for s in admitted], [s.source_ids for s in admitted])
        sequences = list(self.running.values())
        return Plan(admitted, encode, sequences, self._step_batch(sequences))

    def _step_batch(self, sequences: list[Sequence]) -> StepBatch:
        rows: list[int] = []
        parents: list[int] = []
        tokens: list[int] = []
        positions: list[int] = []
        for sequence in sequences:
            base = sequence.slot * self.limits.rows_per_slot
            beam = sequence.beam
            rows += range(base, base + len(beam.live))
            parents += [base + parent for parent in beam.parents]
            tokens += [node.token_id for node in beam.live]
            positions += [beam.length] * len(beam.live)
        return StepBatch(
            rows_N=np.array(rows, np.int32),
            parents_N=np.array(parents, np.int32),
            tokens_N=np.array(tokens, np.int32),
            positions_N=np.array(positions, np.int32),
            num_candidates=max((s.beam.num_candidates for s in sequences), default=0),
        )
