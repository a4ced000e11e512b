"""Reads the device's ranked candidates and collects finished hypotheses.

The rules are those of ``service.engine.search``. The device ranks the candidates of a step and
chooses the next rows by itself, so that the host only keeps the ranks of each step. It looks at
sentences one by one where a hypothesis has ended.

    P  slots    R  ranks    T  steps
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from models.bundle.manifest import SpecialIds
from service.engine.endings import Endings
from service.engine.errors import BackendFailed
from service.engine.types import Decoded, DecodingOptions
from service.runtime.backend import NO_CANDIDATE, Limits, Ranked

_NO_CANDIDATE = float(NO_CANDIDATE)


@dataclass(slots=True)
class _Beam:
    """The search of one sentence."""

    rows: int
    ranks: int
    """Number of ranks that belong to it."""
    endings: Endings
    first: int
    """Number of the record of its first token."""
    last: int
    """Number of the record with which it has ``max_decoding_length`` tokens."""
    enough_ends: int
    """Number of hypotheses that end the search, computed from the options once."""
    first_ended: bool
    """Whether rank 0 has been an ending, or the search may stop without that."""

    def is_over(self, record: int) -> bool:
        """Whether its length or the number of its hypotheses ends it with a record."""
        enough = self.first_ended and len(self.endings) >= self.enough_ends
        return enough or record == self.last


class RankedSearch:
    """The beam searches of the sentences in any slots."""

    def __init__(self, limits: Limits, special_ids: SpecialIds) -> None:
        slots, ranks = limits.slots, 2 * limits.rows_per_slot
        self._eos_id = special_ids.eos
        self._beams: dict[int, _Beam] = {}
        """Running searches by slot."""
        self._number = 0
        """Number of the record that is read next."""
        self._at_limit: dict[int, list[int]] = {}
        """Slots of the beams that reach ``max_decoding_length`` with a record, by its number. Some
        may have ended."""
        # A record is overwritten when no sentence can be as long any more. NumPy writes it as a
        # whole. Its single elements are read from Python's own arrays, which takes less time.
        self._ranks = ranks
        self._record_size = slots * ranks
        self._tokens = array("i", bytes(4 * limits.target_length * self._record_size))
        self._rows = array("H", bytes(2 * len(self._tokens)))
        """The row that each rank continues."""
        shape = limits.target_length, slots, ranks
        self._tokens_TPR = np.frombuffer(self._tokens, np.int32).reshape(shape)
        self._rows_TPR = np.frombuffer(self._rows, np.uint16).reshape(shape)
        self._in_use_P = np.zeros(slots, np.bool_)
        self._needed_P = np.full(slots, np.nan)
        """Copy of ``Endings.needed`` of each slot; NaN for an empty slot."""
        self._least_shares_P = np.ones(slots)
        """Factor from sum to score for the longest hypothesis allowed."""

    @property
    def count(self) -> int:
        """Number of sentences."""
        return len(self._beams)

    def add(self, slots: list[int], options: list[DecodingOptions]) -> None:
        """Begin sentences, whose first record is read next."""
        first = self._number
        for slot, each in zip(slots, options, strict=True):
            last = first + each.max_decoding_length - 1
            self._beams[slot] = _Beam(
                each.rows,
                each.ranks,
                Endings(each, self._eos_id),
                first,
                last,
                each.enough_ends,
                not each.ends_early,
            )
            self._at_limit.setdefault(last, []).append(slot)
        self._in_use_P[slots] = True
        self._needed_P[slots] = -np.inf
        self._least_shares_P[slots] = [each.least_share for each in options]

    def remove(self, slots: Iterable[int]) -> None:
        """End searches. Slots where none has begun are ignored."""
        begun = [slot for slot in slots if self._beams.pop(slot, None) is not None]
        if begun:
            self._in_use_P[begun] = False
            self._needed_P[begun] = np.nan

    def advance(self, found: Ranked) -> list[tuple[int, Decoded | BackendFailed]]:
        """Read the record of a step; returns slots and results of finished searches.

        They are removed. A sentence without a candidate fails, because the model's output is not a
        number.
        """
        record = self._number % len(self._tokens_TPR)
        self._tokens_TPR[record] = found.tokens_PR
        self._rows_TPR[record] = found.places_PR
        self._rows_TPR[record] //= np.uint16(found.candidates)
        failed_P = self._in_use_P & ~(found.sums_PR[:, 0] > NO_CANDIDATE)
        failed = set(np.flatnonzero(failed_P).tolist())
        over = self._over(found, self._finish(found)) | failed
        self._number += 1
        outcomes: list[tuple[int, Decoded | BackendFailed]] = []
        for slot in over:
            if slot in failed:
                failure = BackendFailed("the model's output for this sentence is not a number")
                outcomes.append((slot, failure))
            else:
                endings = self._beams[slot].endings
                outcomes.append((slot, endings.decoded(partial(self._trace, slot))))
        self.remove(over)
        return outcomes

    def _finish(self, found: Ranked) -> dict[int, int]:
        """Add the hypotheses that end; returns the best rank that lives on of their sentences."""
        places = np.flatnonzero(found.tokens_PR == self._eos_id).tolist()
        if at_limit := self._at_limit.pop(self._number, None):
            places = sorted({*places, *self._places_at_limit(at_limit)})
        sums = found.sums_PR.ravel()[places].tolist()
        start = self._number % len(self._tokens_TPR) * self._record_size
        living: dict[int, int] = {}
        for place, log_prob in zip(places, sums, strict=True):
            slot, rank = divmod(place, self._ranks)
            beam = self._beams.get(slot)
            if beam is None:
                continue
            if rank < beam.rows and log_prob > _NO_CANDIDATE:
                row, token = self._rows[start + place], self._tokens[start + place]
                beam.endings.add(row, token, self._number - beam.first, log_prob)
                beam.first_ended |= rank == 0
            best = living.get(slot, 0)
            living[slot] = best + 1 if rank == best else best
        return living

    def _places_at_limit(self, slots: list[int]) -> Iterator[int]:
        """Places in the record of all rows of the sentences that end with it."""
        for slot in slots:
            beam = self._beams.get(slot)
            if beam is not None and beam.last == self._number:
                yield from range(slot * self._ranks, slot * self._ranks + beam.rows)

    def _over(self, found: Ranked, living: dict[int, int]) -> set[int]:
        """Slots of the searches that end with the record. ``living`` is as of ``_finish``."""
        sums_PR = found.sums_PR
        best_P = sums_PR[:, 0].copy()
        over: set[int] = set()
        if living:
            slots = list(living)
            beams = [self._beams[slot] for slot in slots]
            self._needed_P[slots] = [beam.endings.needed for beam in beams]
            best_A = sums_PR[slots, [min(r, self._ranks - 1) for r in living.values()]]
            best_P[slots] = best_A
            over.update(
                slot
                for slot, beam, best in zip(slots, beams, best_A.tolist(), strict=True)
                if living[slot] >= beam.ranks or best <= _NO_CANDIDATE or beam.is_over(self._number)
            )
        # Log-probabilities are at most 0, so this bounds the score of every row that lives on.
        hopeless_P = best_P * self._least_shares_P <= self._needed_P
        over.update(np.flatnonzero(hopeless_P).tolist())
        return over

    def _trace(self, slot: int, row: int, length: int) -> tuple[int, ...]:
        """The tokens that a row held when it was ``length`` tokens long.

        A position keeps its rank. If that is an ending, the position has the next rank beyond the
        positions that is none.
        """
        beam = self._beams[slot]
        eos_id, rows, tokens = self._eos_id, self._rows, self._tokens
        written: list[int] = []
        # The position of the last token's record in the ring. A negative position counts from the
        # end of the ring, where earlier records are.
        record = (beam.first + length - 1) % len(self._tokens_TPR)
        last, back = record * self._record_size + slot * self._ranks, -self._record_size
        for place in range(last, last + length * back, back):
            token = tokens[place + row]
            if token == eos_id:
                row = self._refilled(place, row, beam.rows)
                token = tokens[place + row]
            written.append(token)
            row = rows[place + row]
        written.reverse()
        return tuple(written)

    def _refilled(self, place: int, position: int, rows: int) -> int:
        """The rank at a position whose own rank is an ending."""
        ended = [self._tokens[place + rank] == self._eos_id for rank in range(2 * rows)]
        spare = [rank for rank in range(rows, 2 * rows) if not ended[rank]]
        return spare[sum(ended[:position])]
