"""The host's part of beam searches whose state is on a device: endings, stop rules and history.

The rules are those of ``service.engine.search``. The device ranks the candidates of a step and
chooses the next rows by itself, so that the host only keeps the ranks of each step. It looks at
sentences one by one where a hypothesis has ended.

    P  slots    R  ranks    T  steps
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from models.bundle.manifest import SpecialIds
from service.engine.endings import Endings
from service.engine.errors import BackendFailed
from service.engine.types import Decoded, DecodingOptions
from service.runtime.backend import NO_CANDIDATE, Limits, Ranked

_NEVER = 1 << 40
"""Steps until the last of an empty slot."""


@dataclass(slots=True)
class _Beam:
    """The search of one sentence."""

    options: DecodingOptions
    endings: Endings
    first_step: int
    """Number of the record of its first token."""
    enough_ends: int
    """As of the options, where it is computed."""
    first_ended: bool
    """Whether rank 0 has been an ending, or the search may stop without that."""


class RankedSearch:
    """The beam searches of the sentences in any slots."""

    def __init__(self, limits: Limits, special_ids: SpecialIds) -> None:
        slots, ranks = limits.slots, 2 * limits.rows_per_slot
        self._eos_id = special_ids.eos
        self._beams: dict[int, _Beam] = {}
        """By slot."""
        self._steps = 0
        """Number of records that have been read."""
        # A record is overwritten when no sentence can be as long any more.
        self._tokens_TPR = np.zeros((limits.target_length, slots, ranks), np.int32)
        self._places_TPR = np.zeros((limits.target_length, slots, ranks), np.int16)
        self._candidates = 1
        """Of each row, by which places are counted."""
        self._in_use_P = np.zeros(slots, np.bool_)
        self._ranked_PR = np.zeros((slots, ranks), np.bool_)
        """Which ranks belong to the beam of each sentence."""
        self._within_PR = np.zeros((slots, ranks), np.bool_)
        """Which ranks stay at their position unless they are endings."""
        self._left_P = np.full(slots, _NEVER)
        """Steps until ``max_decoding_length``."""
        self._has_ended_P = np.zeros(slots, np.bool_)
        """Whether the sentence has a finished hypothesis."""
        self._needed_P = np.full(slots, -np.inf)
        """As ``Endings.needed``."""
        self._least_shares_P = np.zeros(slots)
        """Factor from sum to score for the longest hypothesis allowed."""

    @property
    def count(self) -> int:
        """Number of sentences."""
        return len(self._beams)

    def add(self, slot: int, options: DecodingOptions) -> None:
        """Begin a sentence, whose first record is read next."""
        endings = Endings(options, self._eos_id)
        self._beams[slot] = _Beam(
            options, endings, self._steps, options.enough_ends, not options.ends_early
        )
        self._in_use_P[slot] = True
        self._ranked_PR[slot, : options.ranks] = True
        self._within_PR[slot, : options.rows] = True
        self._left_P[slot] = options.max_decoding_length
        self._least_shares_P[slot] = options.least_share

    def remove(self, slot: int) -> None:
        """End the search of a sentence; does nothing if none has begun there."""
        if self._beams.pop(slot, None) is not None:
            self._in_use_P[slot] = self._ranked_PR[slot] = self._within_PR[slot] = False
            self._has_ended_P[slot] = False
            self._left_P[slot] = _NEVER
            self._needed_P[slot] = -np.inf

    def advance(self, found: Ranked) -> list[tuple[int, Decoded | BackendFailed]]:
        """Read the record of a step; returns slots and results of finished searches.

        A sentence without a candidate fails, because the model's output is not a number.
        """
        tokens_PR, sums_PR = found.tokens_PR, found.sums_PR
        step = self._steps % len(self._tokens_TPR)
        self._tokens_TPR[step], self._places_TPR[step] = tokens_PR, found.places_PR
        self._candidates = found.candidates
        self._steps += 1
        self._left_P -= 1
        ended_PR = tokens_PR == self._eos_id
        failed_P = self._in_use_P & ~(sums_PR[:, 0] > NO_CANDIDATE)
        failed = set(np.flatnonzero(failed_P).tolist())
        over = {*self._end(sums_PR, ended_PR), *self._hopeless(sums_PR, ended_PR)}
        outcomes: list[tuple[int, Decoded | BackendFailed]] = []
        for slot in sorted(failed | over):
            if slot in failed:
                failure = BackendFailed("the model's output for this sentence is not a number")
                outcomes.append((slot, failure))
            else:
                endings = self._beams[slot].endings
                outcomes.append((slot, endings.decoded(partial(self._trace, slot))))
        return outcomes

    def _end(self, sums_PR: NDArray[np.float32], ended_PR: NDArray[np.bool_]) -> list[int]:
        """Add the hypotheses that end; returns the slots whose search is over by their number."""
        last_P = self._left_P == 0
        places = np.flatnonzero((ended_PR | last_P[:, None]) & self._within_PR)
        sums = sums_PR.ravel()[places]
        alive = sums > NO_CANDIDATE
        places, sums = places[alive], sums[alive]
        if not len(places):
            return []
        slots, ranks = np.divmod(places, sums_PR.shape[1])
        at = self._steps - 1
        step = at % len(self._tokens_TPR)
        tokens = self._tokens_TPR[step].ravel()[places].tolist()
        rows = (self._places_TPR[step].ravel()[places] // self._candidates).tolist()
        touched: dict[int, _Beam] = {}
        for slot, rank, row, token, log_prob in zip(
            slots.tolist(), ranks.tolist(), rows, tokens, sums.tolist(), strict=True
        ):
            beam = touched[slot] = self._beams[slot]
            beam.endings.add(row, token, at - beam.first_step, log_prob)
            beam.first_ended |= rank == 0
        for slot, beam in touched.items():
            self._has_ended_P[slot] = True
            self._needed_P[slot] = beam.endings.needed
        return [
            slot
            for slot, beam in touched.items()
            if last_P[slot] or (beam.first_ended and len(beam.endings) >= beam.enough_ends)
        ]

    def _hopeless(self, sums_PR: NDArray[np.float32], ended_PR: NDArray[np.bool_]) -> list[int]:
        """Slots where no row lives on, or none that can become better than what has finished."""
        slots = np.flatnonzero(self._has_ended_P)
        if not len(slots):
            return []
        lives_SR = ~ended_PR[slots] & self._ranked_PR[slots]
        first_S = lives_SR.argmax(axis=1)
        every = np.arange(len(slots))
        best_S = sums_PR[slots, first_S]
        # Log-probabilities are at most 0, so this bounds the score of every live row.
        bound_S = best_S * self._least_shares_P[slots] <= self._needed_P[slots]
        none_S = ~(lives_SR[every, first_S] & (best_S > NO_CANDIDATE))
        found: list[int] = slots[bound_S | none_S].tolist()
        return found

    def _trace(self, slot: int, row: int, length: int) -> tuple[int, ...]:
        """The tokens that a row held when it was ``length`` tokens long.

        A position keeps its rank. If that is an ending, the position has the next rank beyond the
        positions that is none.
        """
        beam = self._beams[slot]
        rows = beam.options.rows
        first = beam.first_step % len(self._tokens_TPR)
        around = max(0, first + length - len(self._tokens_TPR))
        # Slices, because indexing by an array takes as long as following all back-pointers.
        tokens_TR, places_TR = (
            array[first : first + length, slot].tolist() + array[:around, slot].tolist()
            for array in (self._tokens_TPR, self._places_TPR)
        )
        eos_id, candidates, tokens = self._eos_id, self._candidates, []
        for tokens_R, places_R in zip(reversed(tokens_TR), reversed(places_TR), strict=True):
            rank = row
            if tokens_R[rank] == eos_id:
                spare = (r for r in range(rows, 2 * rows) if tokens_R[r] != eos_id)
                for _ in range(1 + tokens_R[:rank].count(eos_id)):
                    rank = next(spare)
            tokens.append(tokens_R[rank])
            row = places_R[rank] // candidates
        tokens.reverse()
        return tuple(tokens)
