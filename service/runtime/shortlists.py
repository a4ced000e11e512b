"""Lexical shortlist of a batch: the union of its sentences' target tokens, as logit columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from models.bundle.shortlist import Shortlist
from service.runtime.backend import BARRED, FloatArray

Ids = NDArray[np.int64]


class BatchShortlist:
    """Shortlists of the sentences in all slots, and their union."""

    def __init__(self, shortlist: Shortlist, slots: int) -> None:
        self._shortlist = shortlist
        self._ids_P: list[Ids] = [np.zeros(0, np.int64)] * slots
        self._of: tuple[int, int] = (-1, -1)
        self.ids_L: Ids = np.zeros(0, np.int64)
        """The token id of each column, ascending."""
        self.bias_BL: FloatArray = np.zeros((0, 0), np.float32)
        """Logit bias that bars each sentence from tokens outside its own shortlist."""

    def put(self, first_slot: int, sources: Sequence[tuple[int, ...]]) -> None:
        for slot, source in enumerate(sources, first_slot):
            self._ids_P[slot] = self._shortlist.ids_for(source).astype(np.int64)

    def move(self, origin: int, slot: int) -> None:
        self._ids_P[slot] = self._ids_P[origin]

    def size(self, sentences: int, membership: int) -> int:
        """Number of columns for the first slots; ``membership`` changes with their sentences."""
        if self._of != (sentences, membership):
            own = self._ids_P[:sentences]
            allowed_V = np.zeros(self._shortlist.target_bound, np.bool_)
            for ids in own:
                allowed_V[ids] = True
            self.ids_L = np.flatnonzero(allowed_V)
            self.bias_BL = np.full((sentences, len(self.ids_L)), BARRED, np.float32)
            for bias_L, ids in zip(self.bias_BL, own, strict=True):
                bias_L[np.searchsorted(self.ids_L, ids)] = 0
            self._of = sentences, membership
        return len(self.ids_L)

    def columns(self, token_ids: NDArray[np.integer]) -> tuple[Ids, NDArray[np.bool_]]:
        """The column of each token, and whether it has one; otherwise the column is arbitrary."""
        columns = np.minimum(np.searchsorted(self.ids_L, token_ids), len(self.ids_L) - 1)
        return columns, self.ids_L[columns] == token_ids
