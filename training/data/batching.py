"""Batches of similar lengths under a budget of padded tokens, in an order that can be resumed.

The order of an epoch follows from the seed, the epoch's number and the width of the length buckets
alone, so a place in the data is two integers. What a batch is padded to is decided here as well:
with buckets, the shapes of an epoch are few, and the same in every epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.bundle.manifest import SpecialIds
from training.data.shards import Shards, Side

Indices = NDArray[np.int64]

_SHARES = 16
"""With buckets, the real target positions are rounded up to so many parts of all positions."""


@dataclass(frozen=True, slots=True)
class Batch:
    source_BS: Tensor
    """Each row ends with ``eos``."""
    input_BT: Tensor
    """The target as the decoder reads it: ``bos`` first."""
    output_BT: Tensor
    """The target as it should be predicted: ``eos`` last."""
    positions_N: Tensor
    """Where in the flattened ``output_BT`` something is to be predicted; filled up with zeros."""
    targets_N: Tensor
    """What is to be predicted there; filled up with padding."""

    @property
    def num_target_tokens(self) -> int:
        return int((self.targets_N != 0).sum())

    def pinned(self) -> Batch:
        """The same in memory that a CUDA device can read by itself."""
        return Batch(*(getattr(self, name).pin_memory() for name in self.__slots__))

    def to(self, device: torch.device) -> Batch:
        return Batch(
            *(getattr(self, name).to(device, non_blocking=True) for name in self.__slots__)
        )


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where in the data training stands: the next batch is ``batch`` of ``epoch``."""

    epoch: int = 0
    batch: int = 0


@dataclass(frozen=True, slots=True)
class Planned:
    """Who is in a batch, and how many rows it has: as many, or more if its shape asks for it."""

    indices: Indices
    rows: int


class BatchLoader:
    """Endless batches; ``cursor`` says where the next one is. No row is rounded up to more than
    ``longest`` positions, those that the network has."""

    def __init__(
        self,
        shards: Shards,
        special: SpecialIds,
        tokens_per_batch: int,
        seed: int,
        length_multiple: int = 1,
        longest: int | None = None,
    ) -> None:
        if special.pad != 0:
            raise ValueError("batches are padded with id 0")
        self.shards = shards
        self.special = special
        self.length_multiple = length_multiple
        self.longest = longest
        self._budget = tokens_per_batch
        self._seed = seed
        self._epoch = -1
        self._batches: Sequence[Planned] = []
        self.cursor = Cursor()

    def __iter__(self) -> Iterator[Batch]:
        while True:
            yield self.next()

    def next(self) -> Batch:
        planned = self.plan()
        return collate(
            self.shards,
            planned.indices,
            self.special,
            rows=planned.rows,
            length_multiple=self.length_multiple,
            longest=self.longest,
        )

    def plan(self) -> Planned:
        """Who is in the next batch; moves ``cursor`` on."""
        if self._epoch != self.cursor.epoch:
            self._batches = self._shuffled(self.cursor.epoch)
            self._epoch = self.cursor.epoch
        planned = self._batches[self.cursor.batch]
        if self.cursor.batch + 1 < len(self._batches):
            self.cursor = Cursor(self.cursor.epoch, self.cursor.batch + 1)
        else:
            self.cursor = Cursor(self.cursor.epoch + 1, 0)
        return planned

    def _shuffled(self, epoch: int) -> list[Planned]:
        rng = np.random.default_rng((self._seed, epoch))
        order = rng.permutation(len(self.shards))
        source, target = self.shards.source.lengths[order], self.shards.target.lengths[order]
        # Sorts of a shuffled order are stable: equal lengths meet other neighbours in every epoch.
        if self.length_multiple > 1:
            batches = in_buckets(order, source, target, self._budget, self.length_multiple)
        else:
            cut = in_batches(order, np.maximum(source, target), self._budget)
            batches = [Planned(indices, len(indices)) for indices in cut]
        return [batches[i] for i in rng.permutation(len(batches))]


def in_batches(order: Indices, lengths: Indices, budget: int) -> list[Indices]:
    """Cut ``order``, sorted by length, into batches of at most ``budget`` padded tokens each.

    ``lengths`` are without ``bos`` or ``eos``, one of which every row adds. A sentence longer
    than the budget gets a batch of its own.
    """
    by_length = np.argsort(lengths, kind="stable")
    order, lengths = order[by_length], lengths[by_length] + 1
    batches: list[Indices] = []
    start = 0
    while start < len(order):
        # No row to come is shorter than the first.
        widths = lengths[start : start + max(1, budget // lengths[start])]
        tokens = widths * np.arange(1, len(widths) + 1)
        end = start + max(1, int(np.searchsorted(tokens, budget, side="right")))
        batches.append(order[start:end])
        start = end
    return batches


def in_buckets(
    order: Indices, source: Indices, target: Indices, budget: int, multiple: int
) -> list[Planned]:
    """Cut ``order`` into batches whose padded lengths are multiples, and rows follow from those.

    ``source`` and ``target`` are lengths in the order of ``order``, without ``bos`` or ``eos``.
    The longer side decides a sentence's bucket, and the bucket how many rows fit the budget; who
    is left over when a bucket has been cut goes to the next, so that only the last batch has rows
    that nobody needs. Within a bucket, those whose shorter sides are alike stay together.
    """
    source, target = (source + multiple) // multiple, (target + multiple) // multiple
    widths = np.maximum(source, target)
    sorting = np.lexsort((target, source, widths))
    order, widths = order[sorting], widths[sorting]
    batches: list[Planned] = []
    start = 0
    for width in np.unique(widths):
        end = int(np.searchsorted(widths, width, side="right"))
        rows = max(1, budget // (int(width) * multiple))
        while end - start >= rows:
            batches.append(Planned(order[start : start + rows], rows))
            start += rows
    if start < len(order):
        batches.append(Planned(order[start:], rows))
    return batches


def collate(
    shards: Shards,
    indices: Indices,
    special: SpecialIds,
    *,
    rows: int | None = None,
    length_multiple: int = 1,
    longest: int | None = None,
) -> Batch:
    """The pairs of ``indices``, framed and padded, as tensors on the CPU.

    Rows beyond theirs are sentences of no words of which nothing is predicted: attention to
    padding alone would be no number.
    """
    rows = len(indices) if rows is None else rows
    shape = _Shape(rows, length_multiple, longest)
    source_BS = _padded(shards.source, indices, shape, last=special.eos)
    input_BT = _padded(shards.target, indices, shape, first=special.bos)
    output_BT = _padded(shards.target, indices, shape, last=special.eos)
    output_BT[len(indices) :] = special.pad
    flat = output_BT.reshape(-1)
    (real,) = np.nonzero(flat)
    share = 1 if length_multiple == 1 else -(-len(flat) // _SHARES)
    positions_N = np.zeros(min(-(-len(real) // share) * share, len(flat)), np.int64)
    targets_N = np.zeros_like(positions_N)
    positions_N[: len(real)] = real
    targets_N[: len(real)] = flat[real]
    return Batch(*map(torch.from_numpy, (source_BS, input_BT, output_BT, positions_N, targets_N)))


@dataclass(frozen=True, slots=True)
class _Shape:
    rows: int
    multiple: int
    longest: int | None

    def columns(self, needed: int) -> int:
        rounded = -(-needed // self.multiple) * self.multiple
        return rounded if self.longest is None else max(needed, min(rounded, self.longest))


def _padded(
    side: Side,
    indices: Indices,
    shape: _Shape,
    *,
    first: int | None = None,
    last: int | None = None,
) -> NDArray[np.int64]:
    """The sequences of ``indices`` with one token more in front or behind, padded with 0."""
    starts = side.offsets[indices]
    lengths = side.offsets[indices + 1] - starts
    longest = int(lengths.max(initial=0)) + 1
    padded_BT = np.zeros((shape.rows, shape.columns(longest)), np.int64)
    column = np.arange(longest - 1)
    real = column < lengths[:, None]
    shift = 0 if first is None else 1
    body = padded_BT[: len(indices), shift : shift + longest - 1]
    body[real] = side.tokens[(starts[:, None] + column)[real]]
    if first is not None:
        padded_BT[:, 0] = first
    if last is not None:
        padded_BT[np.arange(len(indices)), lengths] = last
        padded_BT[len(indices) :, 0] = last
    return padded_BT


def padded(rows: list[np.ndarray]) -> Tensor:
    """Rows of different lengths as one tensor, padded at the end with 0."""
    padded_BT = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for row, ids in zip(padded_BT, rows, strict=True):
        row[: len(ids)] = ids
    return torch.from_numpy(padded_BT)
