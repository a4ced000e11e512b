"""Loader of a process's share of each optimiser step in data-parallel training.

The recipe sets the number of batches per step. The processes share them as whole batches where
there are enough, otherwise as rows. So the number of processes never changes what is computed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from training.data.batching import Batch, BatchLoader, Cursor, Indices, Planned, collate
from training.data.shards import Shards


@dataclass(frozen=True, slots=True)
class Amount:
    """Amount of text in a step, without padding."""

    source_tokens: int = 0
    target_tokens: int = 0
    source_squares: int = 0
    """Sum over sentences of the squared length: the position pairs of self-attention."""
    target_squares: int = 0
    products: int = 0
    """Sum over sentences of source length times target length."""

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            *(getattr(self, each.name) + getattr(other, each.name) for each in fields(self))
        )

    @classmethod
    def of(cls, shards: Shards, indices: Indices) -> Amount:
        """The amount of the pairs ``indices``, each side with its ``bos`` or ``eos``."""
        offsets = shards.source.offsets, shards.target.offsets
        source, target = (each[indices + 1] - each[indices] + 1 for each in offsets)
        return cls(
            int(source.sum()),
            int(target.sum()),
            int((source * source).sum()),
            int((target * target).sum()),
            int((source * target).sum()),
        )


@dataclass(frozen=True, slots=True)
class Portion:
    """One process's share of a step."""

    batches: tuple[Batch, ...]
    amount: Amount
    """Amount of the whole step, over all processes."""
    begin: Cursor
    end: Cursor
    """Position in the data of the next step."""


class PortionLoader:
    """Endless iterator over steps of ``accumulate`` batches; returns this process's portions.

    The ``world`` processes form gcd(accumulate, world) groups. Batch j goes to group j modulo the
    number of groups, and each of the m members of a group takes every m-th row.
    """

    def __init__(self, loader: BatchLoader, accumulate: int, rank: int = 0, world: int = 1) -> None:
        self._loader = loader
        self._accumulate = accumulate
        self._groups = math.gcd(accumulate, world)
        self._members = world // self._groups
        self._group, self._member = divmod(rank, self._members)

    @property
    def cursor(self) -> Cursor:
        return self._loader.cursor

    @cursor.setter
    def cursor(self, cursor: Cursor) -> None:
        self._loader.cursor = cursor

    def next(self) -> Portion:
        begin = self.cursor
        planned = [self._loader.plan() for _ in range(self._accumulate)]
        amount = sum((Amount.of(self._loader.shards, p.indices) for p in planned), Amount())
        own = tuple(map(self._part, planned[self._group :: self._groups]))
        return Portion(own, amount, begin, self.cursor)

    def _part(self, planned: Planned) -> Batch:
        rows = -(-planned.rows // self._members)
        indices = planned.indices[self._member :: self._members]
        return collate(
            self._loader.shards,
            np.ascontiguousarray(indices),
            self._loader.special,
            rows=rows,
            length_multiple=self._loader.length_multiple,
            longest=self._loader.longest,
        )
