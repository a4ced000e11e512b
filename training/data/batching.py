"""Batches sentence pairs of similar lengths under a budget of padded tokens, resumably.

The order of an epoch depends only on the seed, the epoch's number and the width of the length
buckets, so a position in the data is three integers. Large corpora are planned block by block, so
that neither the start of an epoch nor a resume grows with them. The padded shapes are chosen here
as well: with buckets, an epoch has few shapes, the same in every epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.bundle.manifest import SpecialIds
from training.data.shards import Shards, Side

Indices = NDArray[np.int64]

BLOCK = 1 << 20
"""Pairs that are planned at once."""
CHUNK = 1 << 10
"""Neighbouring pairs that are in the same block of an epoch, in any order. A block is of chunks
from everywhere, so that it is a sample of all corpora."""

_SHARES = 16
"""Divisor of the bucket size: real target positions are rounded up to a multiple of 1/16 of all."""


@dataclass(frozen=True, slots=True)
class Batch:
    source_BS: Tensor
    """Each row ends with ``eos``."""
    input_BT: Tensor
    """Decoder input: begins with ``bos``."""
    output_BT: Tensor
    """Decoder output to predict: ends with ``eos``."""
    positions_N: Tensor
    """Indices into the flattened ``output_BT`` of the tokens to predict, padded with zeros."""
    targets_N: Tensor
    """The token ids to predict there, padded with ``pad``."""

    @property
    def num_target_tokens(self) -> int:
        return int((self.targets_N != 0).sum())

    def pinned(self) -> Batch:
        """A copy in page-locked memory, for asynchronous transfer to a CUDA device."""
        return Batch(*(getattr(self, name).pin_memory() for name in self.__slots__))

    def to(self, device: torch.device) -> Batch:
        return Batch(
            *(getattr(self, name).to(device, non_blocking=True) for name in self.__slots__)
        )


@dataclass(frozen=True, slots=True)
class Cursor:
    """Position in the data: the next batch is number ``batch`` of a block of ``epoch``."""

    epoch: int = 0
    batch: int = 0
    block: int = 0


@dataclass(frozen=True, slots=True)
class Planned:
    """The pairs of a batch, and its number of rows, which is larger if the bucket's shape is."""

    indices: Indices
    rows: int


class BatchLoader:
    """Plans batches without an end; ``cursor`` is the position of the next one.

    ``PortionLoader`` collates them. Rounding up a row's length stops at ``longest``, the network's
    maximum length.
    """

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
        self.seed = seed
        self._blocks = max(1, -(-len(shards) // BLOCK))
        self._planned: tuple[int, int] | None = None
        """Epoch and block of ``_batches``."""
        self._batches: Sequence[Planned] = []
        self.cursor = Cursor()

    def plan(self) -> Planned:
        """The pairs of the next batch; advances ``cursor``."""
        epoch, batch, block = self.cursor.epoch, self.cursor.batch, self.cursor.block
        if self._planned != (epoch, block):
            self._batches = self._shuffled(epoch, block)
            self._planned = (epoch, block)
        planned = self._batches[batch]
        if batch + 1 < len(self._batches):
            self.cursor = Cursor(epoch, batch + 1, block)
        elif block + 1 < self._blocks:
            self.cursor = Cursor(epoch, 0, block + 1)
        else:
            self.cursor = Cursor(epoch + 1)
        return planned

    def _shuffled(self, epoch: int, block: int) -> list[Planned]:
        rng = np.random.default_rng((self.seed, epoch, block))
        order = rng.permutation(self._pairs_of(epoch, block))
        source, target = (
            each.offsets[order + 1] - each.offsets[order]
            for each in (self.shards.source, self.shards.target)
        )
        # The stable sorts of a shuffled order put equal lengths together anew in every epoch.
        if self.length_multiple > 1:
            batches = in_buckets(order, source, target, self._budget, self.length_multiple)
        else:
            cut = in_batches(order, np.maximum(source, target), self._budget)
            batches = [Planned(indices, len(indices)) for indices in cut]
        return [batches[i] for i in rng.permutation(len(batches))]

    def _pairs_of(self, epoch: int, block: int) -> Indices:
        """The pairs of a block: those of every so manieth chunk of a random order of chunks."""
        pairs = len(self.shards)
        if self._blocks == 1:
            return np.arange(pairs)
        rng = np.random.default_rng((self.seed, epoch))
        chunks = rng.permutation(-(-pairs // CHUNK))[block :: self._blocks]
        indices = (chunks[:, None] * CHUNK + np.arange(CHUNK)).ravel()
        return indices[indices < pairs]


def in_batches(order: Indices, lengths: Indices, budget: int) -> list[Indices]:
    """Cut ``order``, sorted by length, into batches of at most ``budget`` padded tokens each.

    ``lengths`` count neither ``bos`` nor ``eos``; every row adds one of them. A sentence longer
    than the budget gets a batch of its own.
    """
    by_length = np.argsort(lengths, kind="stable")
    order, lengths = order[by_length], lengths[by_length] + 1
    batches: list[Indices] = []
    start = 0
    while start < len(order):
        # Rows are sorted by length, so no later row is shorter than the first.
        widths = lengths[start : start + max(1, budget // lengths[start])]
        tokens = widths * np.arange(1, len(widths) + 1)
        end = start + max(1, int(np.searchsorted(tokens, budget, side="right")))
        batches.append(order[start:end])
        start = end
    return batches


def in_buckets(
    order: Indices, source: Indices, target: Indices, budget: int, multiple: int
) -> list[Planned]:
    """Cut ``order`` into batches of bucketed lengths, with a number of rows fixed per bucket.

    ``source`` and ``target`` are lengths in the order of ``order``, without ``bos`` or ``eos``.
    Lengths are rounded up to multiples of ``multiple``. The longer side decides a sentence's
    bucket, and the bucket decides how many rows fit the budget. Sentences that do not fill a batch
    move on to the next bucket, so only the last batch has unused rows. Within a bucket, sentences
    are sorted by the shorter side.
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
    """The pairs of ``indices`` as padded CPU tensors with ``bos`` and ``eos``.

    An unused row holds an empty sentence and nothing to predict, since attention over padding alone
    would be NaN.
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


def room_of(
    shards: Shards, indices: Indices, length_multiple: int, longest: int | None
) -> tuple[int, int]:
    """Greatest lengths that rows of each side may grow to, without ``bos`` or ``eos``.

    With buckets, the shape stays as it is; otherwise only ``longest`` bounds it.
    """
    if length_multiple == 1:
        most = (1 << 30 if longest is None else longest) - 1
        return most, most
    shape = _Shape(len(indices), length_multiple, longest)
    source, target = (
        int((side.offsets[indices + 1] - side.offsets[indices]).max(initial=0))
        for side in (shards.source, shards.target)
    )
    return shape.columns(source + 1) - 1, shape.columns(target + 1) - 1


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
    """Sequences of ``indices`` with ``first`` in front or ``last`` behind, padded with 0."""
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
