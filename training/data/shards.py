"""Token ids on disk, read through memory maps: ``<side>.tokens`` and ``<side>.offsets``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SIDES = ("source", "target")


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
        """Raises ``FileNotFoundError`` saying to prepare the recipe first."""
        if not directory.is_dir():
            raise FileNotFoundError(
                f"{directory} does not exist; run `python -m training prepare RECIPE` first"
            )
        return cls(*(_open_side(directory, side) for side in SIDES))

    @classmethod
    def write(
        cls, directory: Path, pairs: Iterable[tuple[tuple[int, ...], tuple[int, ...]]]
    ) -> Shards:
        directory.mkdir(parents=True, exist_ok=True)
        offsets: tuple[list[int], list[int]] = ([0], [0])
        with (
            (directory / "source.tokens").open("wb") as source_file,
            (directory / "target.tokens").open("wb") as target_file,
        ):
            for pair in pairs:
                for file, ids, ends in zip((source_file, target_file), pair, offsets, strict=True):
                    file.write(np.array(ids, np.int32).tobytes())
                    ends.append(ends[-1] + len(ids))
        for side, ends in zip(SIDES, offsets, strict=True):
            np.array(ends, np.int64).tofile(directory / f"{side}.offsets")
        return cls.open(directory)


def _open_side(directory: Path, side: str) -> Side:
    offsets = np.fromfile(directory / f"{side}.offsets", np.int64)
    path = directory / f"{side}.tokens"
    # An empty file cannot be mapped.
    tokens: NDArray[np.int32] = (
        np.memmap(path, np.int32, mode="r") if offsets[-1] else np.empty(0, np.int32)
    )
    if len(tokens) != offsets[-1]:
        raise ValueError(f"{path} holds {len(tokens)} tokens where {offsets[-1]} were written")
    return Side(tokens, offsets)
