"""Loader of a process's share of each optimiser step in data-parallel training.

The recipe sets the number of batches per step. The processes share them as whole batches where
there are enough, otherwise as rows. So the number of processes never changes what is computed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from training.data.batching import Batch, BatchLoader, Cursor, Indices, Planned, collate, room_of
from training.data.shards import Shards
from training.data.splitting import Splitter


@dataclass(frozen=True, slots=True)
class Division:
    """Division of a step's batches among the processes that share it."""

    batches: int
    processes: int

    @property
    def groups(self) -> int:
        """Groups of processes; batch j is for group j modulo their number."""
        return math.gcd(self.batches, self.processes)

    @property
    def members(self) -> int:
        """Processes of a group, each of which takes every so manieth row of a batch."""
        return self.processes // self.groups

    @property
    def passes(self) -> int:
        """Batches, or parts of them, that a process computes in a step."""
        return self.batches // self.groups


@dataclass(frozen=True, slots=True)
class Amount:
    """Amount of text in a step, without padding, before pieces are split."""

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
    """Endless iterator over optimiser steps; returns this process's portions.

    A step has ``accumulate`` batches, or ``later[1]`` of them after the first ``later[0]`` steps.
    The ``world`` processes share its batches as ``Division`` has them.
    """

    def __init__(
        self,
        loader: BatchLoader,
        accumulate: int,
        rank: int = 0,
        world: int = 1,
        later: tuple[int, int] | None = None,
        splitter: Splitter | None = None,
    ) -> None:
        self.splitter = splitter
        self.steps = 0
        """Number of steps before the next one."""
        self._loader = loader
        self._accumulate = accumulate
        self._later = later
        self._rank = rank
        self._world = world

    @property
    def cursor(self) -> Cursor:
        return self._loader.cursor

    @cursor.setter
    def cursor(self, cursor: Cursor) -> None:
        self._loader.cursor = cursor

    def next(self) -> Portion:
        begin = self.cursor
        count = self._accumulate
        if self._later is not None and self.steps >= self._later[0]:
            count = self._later[1]
        self.steps += 1
        planned = [(self.cursor, self._loader.plan()) for _ in range(count)]
        amount = sum((Amount.of(self._loader.shards, p.indices) for _, p in planned), Amount())
        division = Division(count, self._world)
        group, member = divmod(self._rank, division.members)
        own = tuple(
            self._part(*each, member, division.members)
            for each in planned[group :: division.groups]
        )
        return Portion(own, amount, begin, self.cursor)

    def _part(self, place: Cursor, planned: Planned, member: int, members: int) -> Batch:
        loader = self._loader
        shards, indices = loader.shards, planned.indices
        if self.splitter is not None:
            most = room_of(shards, indices, loader.length_multiple, loader.longest)
            seed = (loader.seed, place.epoch, place.block, place.batch)
            # All members split the whole batch alike.
            shards = self.splitter.split(shards, indices, most, seed)
            indices = np.arange(len(indices))
        return collate(
            shards,
            np.ascontiguousarray(indices[member::members]),
            loader.special,
            rows=-(-planned.rows // members),
            length_multiple=loader.length_multiple,
            longest=loader.longest,
        )
