"""Beam search over all sentences of a batch at once: pure bookkeeping, no model and no clock.

The algorithm is CTranslate2's; ``tests.engine.reference`` is the same search written for reading.
A sentence has positions 0 … ``beam_size`` − 1, each with a live row or empty. At every step the
candidates of its rows compete by summed log-probability, and the best ``2 * beam_size`` (one, if
the search is greedy) are ranked:

- an ending among the first ``beam_size`` ranks is a finished hypothesis; further down it is
  dropped;
- rank *k* that has not ended lives on at position *k*; an ended one's position goes to the next
  rank beyond the first ``beam_size`` that has not;
- the search stops when ``round(beam_size * patience)`` hypotheses have finished (greedy: one). If
  ``length_penalty`` and ``coverage_penalty`` are 0 it stops instead once rank 0 has been an ending
  and ``num_hypotheses`` have finished. It also stops when no live row can become better than the
  hypotheses it already has, which changes no result;
- ``bos`` and ``pad`` are no candidates;
- at ``max_decoding_length`` each of the first ``beam_size`` ranks is a hypothesis, ended or not.

Sums are float32. Equal sums rank by position, then by the model's own order of candidates; equal
scores by which came first. So a result depends only on the sentence's own candidates.
``service.engine.constraints`` implements the options beyond this.

    P  slots    T  tokens written    R  ranks    (other axes: runtime/backend.py)
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from models.bundle.manifest import SpecialIds
from service.engine.constraints import Constraints, gather_edits
from service.engine.endings import Endings
from service.engine.errors import BackendFailed
from service.engine.history import History
from service.engine.recording import RecordedConstraints
from service.engine.types import Decoded, DecodingOptions
from service.runtime.backend import BARRED, EMPTY_ROW, Candidates, FloatArray, Limits, StepBatch

T = TypeVar("T")

_DEAD = np.float32(-np.inf)
_NO_CANDIDATES = 2
"""``bos`` and ``pad`` are removed, so each step requests two more candidates."""
_BARELY = BARRED / 2
"""A lower log-probability belongs to a barred token."""


class Search:
    """The hypotheses of the sentences in the slots 0 … B − 1."""

    def __init__(self, limits: Limits, special_ids: SpecialIds) -> None:
        slots, rows, length = limits.slots, limits.rows_per_slot, limits.target_length
        self._bos_id, self._pad_id = special_ids.bos, special_ids.pad
        self._eos_id, self._unk_id = special_ids.eos, special_ids.unk
        self.count = 0
        self._options: list[DecodingOptions] = []
        self._constraints: list[Constraints | None] = []
        self._constrained = 0
        """Number of sentences with constraints."""
        self._scored = 0
        """Number of sentences that need log-probabilities."""
        self._endings: list[Endings] = []
        self._sums_PK = np.full((slots, rows), _DEAD, np.float32)
        """Sum of log-probabilities of each row; −∞ for an empty row."""
        self._tokens_PK = np.zeros((slots, rows), np.int32)
        self._parents_PK = np.full((slots, rows), EMPTY_ROW, np.int32)
        self._history = History(slots, length, rows)
        self._lengths_P = np.zeros(slots, np.int32)
        self._rows_P = np.zeros(slots, np.int32)
        self._ranks_P = np.zeros(slots, np.int32)
        self._min_lengths_P = np.zeros(slots, np.int32)
        self._max_lengths_P = np.zeros(slots, np.int32)
        self._num_ends_P = np.zeros(slots, np.int32)
        self._enough_ends_P = np.zeros(slots, np.int32)
        self._first_ended_P = np.zeros(slots, np.bool_)
        """Whether rank 0 has been an ending, or the search may stop without that."""
        self._needed_P = np.zeros(slots, np.float64)
        """Copy of ``Endings.needed`` of each slot."""
        self._least_shares_P = np.zeros(slots, np.float64)
        """Factor from sum to score for the longest hypothesis allowed."""
        self._columns = (
            self._sums_PK,
            self._tokens_PK,
            self._parents_PK,
            *self._history.columns,
            self._lengths_P,
            self._rows_P,
            self._ranks_P,
            self._min_lengths_P,
            self._max_lengths_P,
            self._num_ends_P,
            self._enough_ends_P,
            self._first_ended_P,
            self._needed_P,
            self._least_shares_P,
        )

    def add(self, options: DecodingOptions, source_length: int) -> None:
        """Begin a sentence in the next slot."""
        slot = self.count
        self.count += 1
        self._options.append(options)
        kind = RecordedConstraints if options.recorded else Constraints
        constraints = kind.of(options, source_length, self._eos_id, self._unk_id)
        self._constraints.append(constraints)
        self._constrained += constraints is not None
        self._scored += options.needs_scores(constraints is not None)
        self._endings.append(Endings(options, self._eos_id))
        # Each sample has a row from the start; a beam search starts with one row that forks.
        first_rows = options.rows if options.samples else 1
        self._sums_PK[slot] = _DEAD
        self._sums_PK[slot, :first_rows] = 0
        self._parents_PK[slot] = EMPTY_ROW
        self._parents_PK[slot, :first_rows] = 0
        self._tokens_PK[slot, :first_rows] = self._bos_id
        self._lengths_P[slot] = 0
        self._rows_P[slot] = options.rows
        self._ranks_P[slot] = options.ranks
        self._min_lengths_P[slot] = options.min_decoding_length
        self._max_lengths_P[slot] = options.max_decoding_length
        self._num_ends_P[slot] = 0
        self._enough_ends_P[slot] = options.enough_ends
        self._first_ended_P[slot] = not options.ends_early
        self._needed_P[slot] = -np.inf
        self._least_shares_P[slot] = options.least_share

    def remove(self, slot: int) -> int:
        """Remove a sentence; the one in the last slot, which is returned, moves to ``slot``."""
        self.count -= 1
        last = self.count
        for column in self._columns:
            column[slot] = column[last]
        self._constrained -= self._constraints[slot] is not None
        self._scored -= self._options[slot].needs_scores(self._constraints[slot] is not None)
        _replace(self._options, slot)
        _replace(self._constraints, slot)
        _replace(self._endings, slot)
        return last

    def batch(self) -> StepBatch:
        """Inputs of the next model step."""
        count = self.count
        live_PK = self._parents_PK[:count] >= 0
        rows = int(np.flatnonzero(live_PK.any(axis=0)).max()) + 1
        lengths_B = self._lengths_P[:count]
        too_short_B = lengths_B < self._min_lengths_P[:count]
        edits, asked_BK, attention = None, None, False
        num_candidates = int(self._ranks_P[:count].max())
        if self._constrained or too_short_B.any():
            live_BK = live_PK[:, :rows]
            edits = gather_edits(self._constraints, live_BK, too_short_B, self._eos_id)
        if self._constrained:
            constrained = [c for c in self._constraints if c is not None]
            attention = any(c.attends for c in constrained)
            num_candidates = max(num_candidates, *(c.candidates for c in constrained))
            if any(c.requested_token is not None for c in constrained):
                asked_B = [0 if c is None else c.requested_token or 0 for c in self._constraints]
                asked_BK = np.repeat(np.array(asked_B, np.int32)[:, None], rows, axis=1)
        return StepBatch(
            scores=bool(self._scored) or edits is not None,
            parents_BK=self._parents_PK[:count, :rows],
            tokens_BK=self._tokens_PK[:count, :rows],
            positions_B=lengths_B,
            num_candidates=num_candidates + _NO_CANDIDATES,
            edits=edits,
            asked_BK=asked_BK,
            attention=attention,
        )

    def advance(self, candidates: Candidates) -> list[tuple[int, Decoded | BackendFailed]]:
        """Choose the next live rows; returns slots and results of finished searches.

        NaN in the output for a sentence fails that sentence only.
        """
        count = self.count
        rows = candidates.log_probs_BKN.shape[1]
        old_sums_BK = self._sums_PK[:count, :rows].copy()
        # Sampling may have asked for more candidates than the other sentences rank.
        width = int(self._ranks_P[:count].max()) + _NO_CANDIDATES
        ids_BKN = candidates.token_ids_BKN[:, :, :width]
        log_probs_BKN = candidates.log_probs_BKN[:, :, :width]
        totals_BKN = old_sums_BK[:, :, None] + log_probs_BKN
        failed = self._not_a_number(totals_BKN, old_sums_BK)
        totals_BKN[self._never(ids_BKN) | (log_probs_BKN < _BARELY)] = _DEAD
        rows_BR, tokens_BR, totals_BR = self._ranked(totals_BKN, ids_BKN)
        if self._constrained:
            self._choose(candidates, old_sums_BK, rows_BR, tokens_BR, totals_BR)
        self._lengths_P[:count] += 1
        last_B = self._lengths_P[:count] == self._max_lengths_P[:count]
        alive_BR = totals_BR > _DEAD
        ended_BR = tokens_BR == self._eos_id
        within_BR = np.arange(totals_BR.shape[1]) < self._rows_P[:count, None]
        finished_BR = alive_BR & within_BR & (ended_BR | last_B[:, None])
        alive_BR &= ~(ended_BR | last_B[:, None])
        for slot, rank in np.argwhere(finished_BR).tolist():
            self._finish(
                slot,
                int(rows_BR[slot, rank]),
                float(totals_BR[slot, rank]),
                int(tokens_BR[slot, rank]),
            )
        self._first_ended_P[:count] |= finished_BR[:, 0]
        self._place(rows_BR, tokens_BR, totals_BR, alive_BR, within_BR, finished_BR)
        return self._over(last_B, failed, old_sums_BK)

    def _not_a_number(self, totals_BKN: FloatArray, old_sums_BK: FloatArray) -> set[int]:
        """The slots with NaN in the model output; their candidates are removed."""
        # Empty rows may hold anything. Adding −∞ does not remove a NaN there.
        totals_BKN[old_sums_BK == _DEAD] = _DEAD
        if not np.isnan(totals_BKN.sum()):
            return set()
        failed_B = np.isnan(totals_BKN).any(axis=(1, 2))
        totals_BKN[failed_B] = _DEAD
        return set(np.flatnonzero(failed_B).tolist())

    def _never(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mask of the candidates that never continue a translation: ``bos`` and ``pad``."""
        never: NDArray[np.bool_] = (ids == self._bos_id) | (ids == self._pad_id)
        return never

    def _ranked(
        self, totals_BKN: FloatArray, ids_BKN: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], FloatArray]:
        """Rows, tokens and sums of the best candidates of each sentence, best first."""
        count, _, width = totals_BKN.shape
        too_short_B = self._lengths_P[:count] < self._min_lengths_P[:count]
        if too_short_B.any():
            totals_BKN[too_short_B[:, None, None] & (ids_BKN == self._eos_id)] = _DEAD
        ranks_B1 = self._ranks_P[:count, None]
        ranks = int(ranks_B1.max())
        flat_BM = totals_BKN.reshape(count, -1)
        if (lacking := ranks - flat_BM.shape[1]) > 0:
            # The vocabulary is smaller than the beam.
            flat_BM = np.pad(flat_BM, ((0, 0), (0, lacking)), constant_values=_DEAD)
        order_BR = _largest(flat_BM, ranks)
        totals_BR = flat_BM.ravel()[order_BR + np.arange(count)[:, None] * flat_BM.shape[1]]
        size = totals_BKN[0].size
        np.minimum(order_BR, size - 1, out=order_BR)
        rows_BR = order_BR // width
        tokens_BR = ids_BKN.ravel()[order_BR + np.arange(count)[:, None] * size]
        totals_BR[np.arange(order_BR.shape[1]) >= ranks_B1] = _DEAD
        return rows_BR, tokens_BR, totals_BR

    def _choose(
        self,
        candidates: Candidates,
        old_sums_BK: FloatArray,
        rows_BR: NDArray[np.int64],
        tokens_BR: NDArray[np.int64],
        totals_BR: FloatArray,
    ) -> None:
        """Replace the ranked candidates of the sentences whose constraints choose their own."""
        for slot, constraints in enumerate(self._constraints):
            if constraints is None or np.isnan(candidates.log_probs_BKN[slot]).any():
                continue
            if candidates.attention_BKS is not None:
                constraints.attend(candidates.attention_BKS[slot])
            own = slice(int(self._rows_P[slot]))
            ids_KN = candidates.token_ids_BKN[slot, own]
            rows, tokens, totals = constraints.choose(
                ids_KN,
                np.where(self._never(ids_KN), _DEAD, candidates.log_probs_BKN[slot, own]),
                candidates.asked_log_probs_BK[slot, own],
                old_sums_BK[slot, own],
                int(self._ranks_P[slot]),
            )
            rows_BR[slot, : len(rows)] = rows
            tokens_BR[slot, : len(rows)] = tokens
            totals_BR[slot, : len(rows)] = totals
            totals_BR[slot, len(rows) :] = _DEAD

    def _place(
        self,
        rows_BR: NDArray[np.int64],
        tokens_BR: NDArray[np.int64],
        totals_BR: FloatArray,
        alive_BR: NDArray[np.bool_],
        within_BR: NDArray[np.bool_],
        finished_BR: NDArray[np.bool_],
    ) -> None:
        """Store the surviving ranks as the next rows."""
        count = self.count
        width = int(self._rows_P[:count].max())
        live_BK = (alive_BR & within_BR)[:, :width]
        parents_BK, tokens_BK = rows_BR[:, :width], tokens_BR[:, :width]
        sums_BK = totals_BR[:, :width]
        refilled = np.flatnonzero(finished_BR.any(axis=1))
        if len(refilled):
            # The j-th free position goes to the j-th surviving rank beyond the positions.
            free_AK = finished_BR[refilled, :width]
            beyond_AR = (alive_BR & ~within_BR)[refilled]
            replacement_AR = np.argsort(~beyond_AR, axis=1, kind="stable")
            j_AK = np.maximum(np.cumsum(free_AK, axis=1) - 1, 0)
            rank_AK = np.where(
                free_AK, np.take_along_axis(replacement_AR, j_AK, axis=1), np.arange(width)
            )
            live_BK[refilled] |= free_AK & (j_AK < beyond_AR.sum(axis=1, keepdims=True))
            for array_BK, array_BR in (
                (parents_BK, rows_BR),
                (tokens_BK, tokens_BR),
                (sums_BK, totals_BR),
            ):
                array_BK[refilled] = array_BR[refilled[:, None], rank_AK]
        self._tokens_PK[:count, :width] = tokens_BK
        self._parents_PK[:count] = EMPTY_ROW
        self._parents_PK[:count, :width] = np.where(live_BK, parents_BK, EMPTY_ROW)
        self._sums_PK[:count] = _DEAD
        self._sums_PK[:count, :width] = np.where(live_BK, sums_BK, _DEAD)
        self._history.append(self._lengths_P[:count], tokens_BK, parents_BK)
        if self._constrained:
            for slot, constraints in enumerate(self._constraints):
                if constraints is None:
                    continue
                constraints.follow(self._parents_PK[slot], self._tokens_PK[slot])
                if constraints.is_spent:
                    self._release(slot)

    def _release(self, slot: int) -> None:
        """Drop the constraints of a sentence."""
        self._constraints[slot] = None
        self._constrained -= 1
        options = self._options[slot]
        self._scored += options.needs_scores(False) - options.needs_scores(True)

    def _finish(self, slot: int, row: int, log_prob: float, token: int) -> None:
        """Record the finished hypothesis of ``row`` plus ``token``."""
        constraints, endings = self._constraints[slot], self._endings[slot]
        coverage = None if constraints is None else constraints.coverage(row)
        endings.add(row, token, int(self._lengths_P[slot]) - 1, log_prob, coverage)
        self._num_ends_P[slot] = len(endings)
        self._needed_P[slot] = endings.needed

    def _over(
        self, last_B: NDArray[np.bool_], failed: set[int], old_sums_BK: FloatArray
    ) -> list[tuple[int, Decoded | BackendFailed]]:
        count = self.count
        over_B = (self._num_ends_P[:count] >= self._enough_ends_P[:count]) & (
            self._first_ended_P[:count]
        )
        over_B |= last_B | (self._parents_PK[:count] < 0).all(axis=1)
        # Log-probabilities are at most 0, so this bounds the score of every live row.
        best_B = self._sums_PK[:count].max(axis=1) * self._least_shares_P[:count]
        over_B |= best_B <= self._needed_P[:count]
        outcomes: list[tuple[int, Decoded | BackendFailed]] = []
        for slot in np.flatnonzero(over_B).tolist():
            if slot in failed:
                failure = BackendFailed("the model's output for this sentence is not a number")
                outcomes.append((slot, failure))
            else:
                outcomes.append((slot, self._result(slot, old_sums_BK[slot])))
        return outcomes

    def _result(self, slot: int, old_sums_K: FloatArray) -> Decoded:
        endings = self._endings[slot]
        if not len(endings):
            # No row has an allowed next token, so the rows themselves are the hypotheses.
            length, constraints = int(self._lengths_P[slot]) - 1, self._constraints[slot]
            for row in np.flatnonzero(old_sums_K > _DEAD).tolist():
                coverage = 0.0 if constraints is None else constraints.coverage(row, stuck=True)
                endings.add_cut(row, length, float(old_sums_K[row]), coverage)
        decoded = endings.decoded(partial(self._history.trace, slot))
        recorded = self._constraints[slot]
        if isinstance(recorded, RecordedConstraints):
            return replace(decoded, tree=recorded.tree)
        return decoded


def _replace(items: list[T], place: int) -> None:
    """Remove an item and put the last item in its place."""
    last = items.pop()
    if place < len(items):
        items[place] = last


def _largest(totals_BN: FloatArray, count: int) -> NDArray[np.int64]:
    """Indices of the ``count`` largest in each row, largest first; ties by index."""
    # After a sign fix, floats sort like integers; the index in the low bits breaks ties.
    bits_BN = (totals_BN + np.float32(0)).view(np.int32)
    ascending_BN = bits_BN ^ ((bits_BN >> 31) & np.int32(0x7FFFFFFF))
    keys_BN = (~ascending_BN).astype(np.int64) << 32
    keys_BN |= np.arange(totals_BN.shape[1])
    keys_BN.sort(axis=1)
    return keys_BN[:, :count] & 0xFFFFFFFF
