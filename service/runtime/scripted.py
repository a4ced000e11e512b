"""A backend with no model: next-token distributions come from a function.

For tests, for running the whole service without weights, and for measuring what
the service costs when the model costs nothing. It asserts what a real backend
would be entitled to assume.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from service.runtime.backend import Candidates, EncodeBatch, FloatArray, Limits, StepBatch

Script = Callable[[tuple[int, ...], tuple[int, ...]], FloatArray]
"""(source, prefix) -> log-probabilities over the vocabulary."""


class ScriptedBackend:
    def __init__(self, script: Script, limits: Limits) -> None:
        self.limits = limits
        self.script = script
        self.sources: dict[int, tuple[int, ...]] = {}
        self.prefixes: dict[int, tuple[int, ...]] = {}
        self.encode_sizes: list[int] = []
        """Sentences of each encode so far."""
        self.batch_sizes: list[int] = []
        """Rows of each step so far."""
        self.closed = False

    def encode(self, batch: EncodeBatch) -> None:
        self.encode_sizes.append(len(batch.slots))
        for slot, source in zip(batch.slots, batch.sources, strict=True):
            assert 0 <= slot < self.limits.slots
            assert 0 < len(source) <= self.limits.source_length
            self.sources[slot] = source
            self.prefixes[slot * self.limits.rows_per_slot] = ()

    def step(self, batch: StepBatch) -> Candidates:
        rows = batch.rows_N.tolist()
        parents = batch.parents_N.tolist()
        assert len(set(rows)) == len(rows), "two hypotheses in one row"
        self.batch_sizes.append(len(rows))
        grown = {
            row: (*self.prefixes[parent], token)
            for row, parent, token in zip(rows, parents, batch.tokens_N.tolist(), strict=True)
        }
        for row, parent, position in zip(rows, parents, batch.positions_N.tolist(), strict=True):
            assert self._slot(row) == self._slot(parent), "a hypothesis left its sentence"
            assert position == len(grown[row]) - 1, "a position does not follow its prefix"
        self.prefixes = grown
        log_probs_NV = np.stack([self.script(self.sources[self._slot(r)], grown[r]) for r in rows])
        token_ids_NK = np.argsort(-log_probs_NV, axis=1, kind="stable")[:, : batch.num_candidates]
        return Candidates(
            token_ids_NK.astype(np.int32),
            np.take_along_axis(log_probs_NV, token_ids_NK, axis=1),
        )

    def close(self) -> None:
        self.closed = True

    def _slot(self, row: int) -> int:
        return row // self.limits.rows_per_slot
