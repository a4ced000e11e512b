"""Reader of ``.npz`` archives of plain arrays, with bounds: nothing is unpickled or unpacked."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from models.importing.refusals import NotACheckpoint

MOST_ARRAYS = 10_000
MOST_DIMENSIONS = 4


@dataclass(frozen=True, slots=True)
class Entry:
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    transposed: bool
    """Whether the first index varies fastest in the file (Fortran's order)."""
    stored: zipfile.ZipInfo


class Npz:
    """The arrays of an archive by name; numbers are read when they are needed.

    Entries must be stored without compression, as Marian writes them, so the size of the file
    bounds that of its arrays. Raises ``NotACheckpoint`` if the file is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries: dict[str, Entry] = {}
        try:
            with zipfile.ZipFile(path) as archive:
                listed = archive.infolist()
                if len(listed) > MOST_ARRAYS:
                    raise NotACheckpoint(
                        f"{path} has {len(listed)} arrays; {MOST_ARRAYS} are allowed"
                    )
                for stored in listed:
                    name = stored.filename.removesuffix(".npy")
                    self._entries[name] = self._described(archive, stored)
        except OSError as error:
            raise NotACheckpoint(f"{path} cannot be read: {error.strerror or error}") from error
        # ZipFile raises UnicodeError for a name that is marked as UTF-8 and is not.
        except (zipfile.BadZipFile, EOFError, RuntimeError, UnicodeError) as error:
            raise NotACheckpoint(f"{path} is a damaged archive: {error}") from error

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._entries[name].shape

    def read(self, name: str) -> NDArray[Any]:
        entry = self._entries[name]
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(entry.stored) as file:
                _header(file)
                content = file.read()
        except OSError as error:
            raise NotACheckpoint(
                f"{self.path} cannot be read: {error.strerror or error}"
            ) from error
        except (zipfile.BadZipFile, EOFError) as error:
            raise NotACheckpoint(f"{self.path} is damaged within {name}: {error}") from error
        found = np.frombuffer(content, entry.dtype)
        if entry.transposed:
            return found.reshape(entry.shape[::-1]).T
        return found.reshape(entry.shape)

    def _described(self, archive: zipfile.ZipFile, stored: zipfile.ZipInfo) -> Entry:
        if stored.compress_type != zipfile.ZIP_STORED or stored.compress_size != stored.file_size:
            raise NotACheckpoint(
                f"{self.path}: {stored.filename} is compressed, which Marian never does"
            )
        try:
            with archive.open(stored) as file:
                shape, transposed, dtype = _header(file)
                size = stored.file_size - file.tell()
        except (ValueError, TypeError, SyntaxError, TokenError, RecursionError) as error:
            raise NotACheckpoint(
                f"{self.path}: {stored.filename} is not an array: {error}"
            ) from error
        if (
            # Numbers only: objects are pickled, and structures add dimensions.
            dtype.kind not in "biuf"
            or dtype.subdtype is not None
            or len(shape) > MOST_DIMENSIONS
            or not all(type(length) is int and 0 <= length <= size for length in shape)
            or dtype.itemsize * math.prod(shape) != size
        ):
            raise NotACheckpoint(
                f"{self.path}: {stored.filename} has the shape {list(shape)} of {dtype}, and "
                f"{size} bytes"
            )
        return Entry(shape, dtype, transposed, stored)


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type of an array; ``file`` is then at its first number."""
    version = npy.read_magic(file)
    if version not in {(1, 0), (2, 0)}:
        raise ValueError(f"version {version} of NumPy's format is unknown")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, transposed, dtype = read(file)
    return shape, transposed, dtype
