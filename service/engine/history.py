"""Token history of every beam, stored as back-pointers, so that forking a row copies nothing.

P  slots    T  tokens written    K  rows
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from service.runtime.backend import IntArray


class History:
    """Back-pointer table of all slots."""

    def __init__(self, slots: int, length: int, rows: int) -> None:
        self._tokens_PTK = np.zeros((slots, length, rows), np.int32)
        self._origins_PTK = np.zeros((slots, length, rows), np.int16)

    @property
    def columns(self) -> tuple[NDArray[np.integer], ...]:
        """Arrays whose first axis is the slot; a sentence that changes slot copies its entries."""
        return self._tokens_PTK, self._origins_PTK

    def append(
        self,
        lengths_B: IntArray,
        tokens_BK: NDArray[np.integer],
        origins_BK: NDArray[np.integer],
    ) -> None:
        """Append ``tokens_BK`` to the rows ``origins_BK``, which gives ``lengths_B`` tokens."""
        sentences, rows = tokens_BK.shape
        every = np.arange(sentences)
        self._tokens_PTK[every, lengths_B - 1, :rows] = tokens_BK
        self._origins_PTK[every, lengths_B - 1, :rows] = origins_BK

    def trace(self, slot: int, row: int, length: int) -> tuple[int, ...]:
        """The tokens that ``row`` held when it was ``length`` tokens long."""
        tokens = []
        for place in range(length - 1, -1, -1):
            tokens.append(int(self._tokens_PTK[slot, place, row]))
            row = int(self._origins_PTK[slot, place, row])
        return tuple(reversed(tokens))
