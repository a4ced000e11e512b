"""Vocabulary shortlist: the target ids that decoding of a sentence may choose from.

A sentence's shortlist is the ids that are always allowed, and the likeliest translations of each of
its source ids. Lists are indexed by source ids and hold target ids; both may be of one vocabulary.
Decoding within a shortlist cannot produce translations outside it.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.bundle.manifest import InvalidBundle

_ARRAYS = ("always", "offsets", "targets")

_LARGEST = 1 << 28
"""Bytes of the arrays: those of 100 translations for each of 256,000 pieces have 102 MB."""
_DAMAGE = (ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""Exceptions raised by damaged archives, and by arrays that are no shortlist."""


@dataclass(frozen=True, slots=True, eq=False)
class Shortlist:
    """``targets[offsets[i] : offsets[i + 1]]`` are the target ids of source id ``i``.

    Raises ``ValueError`` for inconsistent arrays.
    """

    always: NDArray[np.int32]
    offsets: NDArray[np.int32]
    """Length: the size of the source vocabulary plus one."""
    targets: NDArray[np.int32]
    target_bound: int = field(init=False)
    """The highest target id plus one."""

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            array = getattr(self, name)
            if array.dtype != np.int32 or array.ndim != 1:
                raise ValueError(
                    f"{name} is {array.ndim}-dimensional {array.dtype}; "
                    "a shortlist has one dimension of int32"
                )
        if len(self.offsets) < 2:
            raise ValueError("offsets are of an empty vocabulary")
        if self.offsets[0] != 0 or self.offsets[-1] != len(self.targets):
            raise ValueError(
                f"offsets run from {self.offsets[0]} to {self.offsets[-1]}; "
                f"there are {len(self.targets)} targets"
            )
        if np.any(self.offsets[1:] < self.offsets[:-1]):
            raise ValueError("offsets decrease")
        for name, ids in (("always", self.always), ("targets", self.targets)):
            if ids.size and ids.min() < 0:
                raise ValueError(f"{name} has {ids.min()}, which is not a token id")
        highest = max(int(ids.max(initial=-1)) for ids in (self.always, self.targets))
        # Computed once, because ``ids_for`` needs it for every sentence.
        object.__setattr__(self, "target_bound", highest + 1)

    @property
    def source_vocabulary_size(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def load(cls, path: Path) -> Shortlist:
        """Read ``shortlist.npz``; raises ``InvalidBundle`` if it holds no shortlist."""
        try:
            content = path.read_bytes()
        except OSError as error:
            raise InvalidBundle(f"the shortlist {path} cannot be read: {error.strerror}") from error
        return cls.from_bytes(content, path)

    @classmethod
    def from_bytes(cls, content: bytes, path: Path) -> Shortlist:
        """The shortlist in a file's content; ``path`` names the file in errors."""
        # NumPy would treat any other file as a pickle, and its error would say so.
        if not zipfile.is_zipfile(io.BytesIO(content)):
            raise InvalidBundle(f"{path} is not an npz archive")
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                missing = [name for name in _ARRAYS if name not in arrays]
                if missing:
                    raise InvalidBundle(f"the shortlist {path} lacks {', '.join(missing)}")
                size = sum(each.file_size for each in arrays.zip.infolist())
                if size > _LARGEST:
                    raise InvalidBundle(
                        f"the shortlist {path} unpacks to {size} bytes; {_LARGEST} are allowed"
                    )
                return cls(**{name: arrays[name] for name in _ARRAYS})
        except _DAMAGE as error:
            raise InvalidBundle(f"the shortlist {path} does not fit: {error}") from error

    def save(self, path: Path) -> None:
        """Write ``shortlist.npz``; equal shortlists give equal bytes."""
        # An open file, because NumPy appends ``.npz`` to a path with another suffix.
        with path.open("wb") as file:
            np.savez_compressed(file, **{name: getattr(self, name) for name in _ARRAYS})

    def ids_for(self, source_ids: Sequence[int] | NDArray[np.int32]) -> NDArray[np.int32]:
        """The sorted, distinct target ids allowed for a sentence of these source ids.

        Raises ``ValueError`` for an id outside the vocabulary.
        """
        ids = np.asarray(source_ids, np.int32)
        if ids.size and not 0 <= ids.min() <= ids.max() < self.source_vocabulary_size:
            raise ValueError(
                f"source ids from {ids.min()} to {ids.max()} are not all of a vocabulary of "
                f"{self.source_vocabulary_size}"
            )
        bounds = zip(self.offsets[ids].tolist(), self.offsets[ids + 1].tolist(), strict=True)
        lists = [self.targets[start:end] for start, end in bounds]
        # A mask over the vocabulary is cheaper than sorting the lists of a sentence.
        allowed_V = np.zeros(self.target_bound, bool)
        allowed_V[np.concatenate((self.always, *lists))] = True
        return np.flatnonzero(allowed_V).astype(np.int32)
