"""Memory-mapped token shards on disk: ``<side>.tokens`` and ``<side>.offsets``."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SIDES = ("source", "target")

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
        """Raises ``FileNotFoundError`` with the command that prepares the recipe."""
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


class ShardWriter:
    """Context manager that appends pairs to new shards, holding none of them in memory."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._files = contextlib.ExitStack()
        self._tokens, self._offsets = (
            [self._files.enter_context((directory / f"{side}.{kind}").open("wb")) for side in SIDES]
            for kind in ("tokens", "offsets")
        )
        self._ends = [0 for _ in SIDES]
        self.pairs = 0

    def __enter__(self) -> ShardWriter:
        for file in self._offsets:
            file.write(np.zeros(1, np.int64).tobytes())
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    @property
    def tokens(self) -> tuple[int, ...]:
        """Number of tokens written so far, of each side."""
        return tuple(self._ends)

    def append(self, pairs: Sequence[IdPair]) -> None:
        if not pairs:
            return
        for side, (tokens, offsets) in enumerate(zip(self._tokens, self._offsets, strict=True)):
            rows = [pair[side] for pair in pairs]
            tokens.write(np.fromiter(itertools.chain.from_iterable(rows), np.int32).tobytes())
            ends = self._ends[side] + np.cumsum([len(row) for row in rows], dtype=np.int64)
            offsets.write(ends.tobytes())
            self._ends[side] = int(ends[-1])
        self.pairs += len(pairs)


def _open_side(directory: Path, side: str) -> Side:
    offsets = np.memmap(directory / f"{side}.offsets", np.int64, mode="r")
    path = directory / f"{side}.tokens"
    # An empty file cannot be mapped.
    tokens: NDArray[np.int32] = (
        np.memmap(path, np.int32, mode="r") if offsets[-1] else np.empty(0, np.int32)
    )
    if len(tokens) != offsets[-1]:
        raise ValueError(f"{path} holds {len(tokens)} tokens where {offsets[-1]} were written")
    return Side(tokens, offsets)
