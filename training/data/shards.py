"""Memory-mapped token shards on disk: ``<side>.tokens`` and ``<side>.offsets``."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from training.data.progress import opened_at, synced
from training.refusal import Refusal

SIDES = ("source", "target")


class DamagedShards(Refusal):
    """Shards are not as they were written; the message says what to do."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is not as it was written; `python -m training prepare RECIPE` writes it again"
        )


Number = TypeVar("Number", bound=np.generic)
IdPair = tuple[Sequence[int], Sequence[int]]


@dataclass(frozen=True, slots=True)
class Side:
    tokens: NDArray[np.int32]
    offsets: NDArray[np.int64]

    def __getitem__(self, index: int) -> NDArray[np.int32]:
        return self.tokens[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)


@dataclass(frozen=True, slots=True)
class Shards:
    """Pairs of token sequences, without ``bos`` and ``eos``."""

    source: Side
    target: Side

    def __len__(self) -> int:
        return len(self.source.offsets) - 1

    @classmethod
    def open(cls, directory: Path) -> Shards:
        """Raises ``FileNotFoundError`` with the command that prepares the recipe, and
        ``DamagedShards``."""
        if not directory.is_dir():
            raise FileNotFoundError(
                f"{directory} does not exist; run `python -m training prepare RECIPE` first"
            )
        return cls(*(_open_side(directory, side) for side in SIDES))

    @classmethod
    def write(cls, directory: Path, pairs: Iterable[IdPair]) -> Shards:
        with ShardWriter(directory) as writer:
            for pair in pairs:
                writer.append([pair])
        return cls.open(directory)


@dataclass(frozen=True, slots=True)
class Packed:
    """Token sequences of each side, one after the other, and their lengths."""

    tokens: tuple[NDArray[np.int32], ...]
    lengths: tuple[NDArray[np.int64], ...]

    @classmethod
    def of(cls, pairs: Sequence[IdPair]) -> Packed:
        rows = [[pair[side] for pair in pairs] for side in range(len(SIDES))]
        return cls(
            tuple(np.fromiter(itertools.chain.from_iterable(each), np.int32) for each in rows),
            tuple(np.array([len(row) for row in each], np.int64) for each in rows),
        )


class ShardWriter:
    """Context manager that appends pairs to new shards, holding none of them in memory.

    Shards that were written up to ``end``, as ``written`` returned it, are continued from there.
    """

    def __init__(self, directory: Path, end: Sequence[int] | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.pairs, *self._ends = end or (0, *(0 for _ in SIDES))
        self._files = contextlib.ExitStack()

        def opened(side: str, kind: str, size: int) -> BinaryIO:
            return self._files.enter_context(opened_at(directory / f"{side}.{kind}", size))

        self._tokens = [
            opened(side, "tokens", 4 * end) for side, end in zip(SIDES, self._ends, strict=True)
        ]
        offsets = 0 if end is None else 8 * (self.pairs + 1)
        self._offsets = [opened(side, "offsets", offsets) for side in SIDES]

    def __enter__(self) -> ShardWriter:
        for file in self._offsets:
            if not file.tell():
                file.write(np.zeros(1, np.int64).tobytes())
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    @property
    def tokens(self) -> tuple[int, ...]:
        """Number of tokens written so far, of each side."""
        return tuple(self._ends)

    def written(self) -> list[int]:
        """The number of pairs, and of each side's tokens, once all are on the disk."""
        synced(*self._tokens, *self._offsets)
        return [self.pairs, *self._ends]

    def append(self, pairs: Sequence[IdPair]) -> None:
        if pairs:
            self.append_packed(Packed.of(pairs))

    def append_packed(self, packed: Packed) -> None:
        for side, (tokens, lengths) in enumerate(zip(packed.tokens, packed.lengths, strict=True)):
            self._tokens[side].write(tokens.tobytes())
            ends = self._ends[side] + np.cumsum(lengths)
            self._offsets[side].write(ends.tobytes())
            self._ends[side] += int(lengths.sum())
        self.pairs += len(packed.lengths[0])


def _open_side(directory: Path, side: str) -> Side:
    offsets = _mapped(directory / f"{side}.offsets", np.int64)
    path = directory / f"{side}.tokens"
    # An empty file cannot be mapped.
    tokens = _mapped(path, np.int32) if offsets[-1] else np.empty(0, np.int32)
    if len(tokens) != offsets[-1]:
        raise DamagedShards(path)
    return Side(tokens, offsets)


def _mapped(path: Path, kind: type[Number]) -> NDArray[Number]:
    try:
        return np.memmap(path, kind, mode="r")
    except ValueError as error:
        raise DamagedShards(path) from error
