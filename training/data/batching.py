"""Batches of similar lengths under a budget of padded tokens, in an order that can be resumed.

The order of an epoch follows from the seed and the epoch's number alone, so a place in the data
is two integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from models.bundle.manifest import SpecialIds
from training.data.shards import Shards


@dataclass(frozen=True, slots=True)
class Batch:
    source_BS: Tensor
    """Each row ends with ``eos``."""
    input_BT: Tensor
    """The target as the decoder reads it: ``bos`` first."""
    output_BT: Tensor
    """The target as it should be predicted: ``eos`` last."""

    @property
    def num_target_tokens(self) -> int:
        return int((self.output_BT != 0).sum())


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where in the data training stands: the next batch is ``batch`` of ``epoch``."""

    epoch: int = 0
    batch: int = 0


class BatchLoader:
    """Endless batches; ``cursor`` says where the next one is."""

    def __init__(
        self, shards: Shards, special: SpecialIds, tokens_per_batch: int, seed: int
    ) -> None:
        if special.pad != 0:
            raise ValueError("batches are padded with id 0")
        self._shards = shards
        self._special = special
        self._budget = tokens_per_batch
        self._seed = seed
        self._epoch = -1
        self._batches: list[np.ndarray] = []
        self.cursor = Cursor()

    def __iter__(self) -> Iterator[Batch]:
        while True:
            yield self.next()

    def next(self) -> Batch:
        if self._epoch != self.cursor.epoch:
            self._batches = self._shuffled(self.cursor.epoch)
            self._epoch = self.cursor.epoch
        indices = self._batches[self.cursor.batch]
        if self.cursor.batch + 1 < len(self._batches):
            self.cursor = Cursor(self.cursor.epoch, self.cursor.batch + 1)
        else:
            self.cursor = Cursor(self.cursor.epoch + 1, 0)
        return collate(self._shards, indices, self._special)

    def _shuffled(self, epoch: int) -> list[np.ndarray]:
        rng = np.random.default_rng((self._seed, epoch))
        order = rng.permutation(len(self._shards))
        lengths = np.maximum(self._shards.source.lengths, self._shards.target.lengths)[order]
        # A stable sort of a shuffled order: equal lengths meet other neighbours in every epoch.
        batches = in_batches(order, lengths, self._budget)
        return [batches[i] for i in rng.permutation(len(batches))]


def in_batches(order: np.ndarray, lengths: np.ndarray, budget: int) -> list[np.ndarray]:
    """Cut ``order``, sorted by length, into batches of at most ``budget`` padded tokens each.

    ``lengths`` are without ``bos`` or ``eos``, one of which every row adds. A sentence longer
    than the budget gets a batch of its own.
    """
    by_length = np.argsort(lengths, kind="stable")
    order, lengths = order[by_length], lengths[by_length] + 1
    batches: list[np.ndarray] = []
    start = 0
    for end in range(1, len(order) + 1):
        if end == len(order) or lengths[end] * (end + 1 - start) > budget:
            batches.append(order[start:end])
            start = end
    return batches


def collate(shards: Shards, indices: np.ndarray, special: SpecialIds) -> Batch:
    bos = np.array([special.bos], np.int32)
    eos = np.array([special.eos], np.int32)
    sources = [np.concatenate((shards.source[i], eos)) for i in indices]
    inputs = [np.concatenate((bos, shards.target[i])) for i in indices]
    outputs = [np.concatenate((shards.target[i], eos)) for i in indices]
    return Batch(padded(sources), padded(inputs), padded(outputs))


def padded(rows: list[np.ndarray]) -> Tensor:
    """Rows of different lengths as one tensor, padded at the end with 0."""
    padded_BT = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for row, ids in zip(padded_BT, rows, strict=True):
        row[: len(ids)] = ids
    return torch.from_numpy(padded_BT)
