"""Records the tree of a sentence's search while it runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from service.engine.constraints import Constraints, Ranked
from service.engine.search_tree import ROOT, Fate, RankedCandidate, SearchTree
from service.engine.types import DecodingOptions
from service.runtime.backend import FloatArray, IntArray

_DEAD = np.float32(-np.inf)


class RecordedConstraints(Constraints):
    """Constraints of a sentence, and a record of what they choose in each step.

    Sentences with plain options have these constraints, too, which then change nothing.
    """

    def __init__(
        self, options: DecodingOptions, source_length: int, eos_id: int, unk_id: int
    ) -> None:
        super().__init__(options, source_length, eos_id, unk_id)
        self._steps: list[tuple[RankedCandidate, ...]] = []
        self._count = 0
        """Number of recorded candidates."""
        self._ids_K = np.full(options.rows, ROOT)
        """Id of the last candidate of each row."""
        self._ranked: list[tuple[int, RankedCandidate]] = []
        """Row and candidate of each rank of the step in progress."""

    @property
    def _of_a_prefix_only(self) -> bool:
        return False

    @property
    def tree(self) -> SearchTree:
        return SearchTree(tuple(self._steps))

    def choose(
        self,
        ids_KN: NDArray[np.int64],
        log_probs_KN: FloatArray,
        asked_log_probs_K: FloatArray,
        sums_K: FloatArray,
        ranks: int,
    ) -> Ranked:
        options, length = self.options, self._written_KT.shape[1] + 1
        rows, tokens, sums = super().choose(ids_KN, log_probs_KN, asked_log_probs_K, sums_K, ranks)
        self._ranked = []
        for rank, (row, token, total) in enumerate(
            zip(rows.tolist(), tokens.tolist(), sums.tolist(), strict=True)
        ):
            if total == _DEAD:
                continue
            ended = token == self._eos_id
            fate: Fate = "dropped" if ended else "pruned"
            if rank < options.rows and (ended or length == options.max_decoding_length):
                fate = "finished"
            self._count += 1
            candidate = RankedCandidate(
                self._count,
                int(self._ids_K[row]),
                token,
                total - float(sums_K[row]),
                total,
                options.normalised(total, length) + self.coverage(row),
                fate,
            )
            self._ranked.append((row, candidate))
        return rows, tokens, sums

    def follow(self, parents_K: IntArray, tokens_K: IntArray) -> None:
        # A row has a token once at most, so both identify a candidate.
        by_place = {(row, each.token): each for row, each in self._ranked}
        kept = set[int]()
        ids_K = np.full(len(self._ids_K), ROOT)
        for position, parent in enumerate(parents_K[: len(ids_K)].tolist()):
            if parent >= 0:
                ids_K[position] = by_place[parent, int(tokens_K[position])].id
                kept.add(int(ids_K[position]))
        self._ids_K = ids_K
        step = tuple(replace(e, fate="kept") if e.id in kept else e for _, e in self._ranked)
        if step:
            self._steps.append(step)
        super().follow(parents_K, tokens_K)
