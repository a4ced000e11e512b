"""What one optimiser step learns from, and which part of it is a process's own.

A recipe says how many batches make a step; the processes share them out, each batch whole where
there are enough, and in rows where there are not. So the number of processes decides who computes
what, never what is computed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from training.data.batching import Batch, BatchLoader, Cursor, Indices, Planned, collate
from training.data.shards import Shards


@dataclass(frozen=True, slots=True)
class Amount:
    """How much text there is in a step; padding counts nothing."""

    source_tokens: int = 0
    target_tokens: int = 0
    source_squares: int = 0
    """Sum over sentences of the squared length: pairs of positions that attention compares."""
    target_squares: int = 0
    products: int = 0
    """Sum over sentences of source length times target length."""

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            *(getattr(self, each.name) + getattr(other, each.name) for each in fields(self))
        )

    @classmethod
    def of(cls, shards: Shards, indices: Indices) -> Amount:
        """Of some pairs, each side with its ``bos`` or ``eos``."""
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
    """One process's part of a step."""

    batches: tuple[Batch, ...]
    amount: Amount
    """Of the whole step, all processes together."""
    begin: Cursor
    end: Cursor
    """Where the next step begins."""


class PortionLoader:
    """Endless steps, ``accumulate`` batches each; this process gets its part of every one.

    ``world`` processes are divided into as many groups as divide both their number and that of
    the batches; batch j goes to group j modulo groups, whose members take every so many-th row.
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
