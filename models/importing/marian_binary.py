"""Reader of Marian's binary format (``.bin``), with int8 matrices of intgemm.

Little-endian: u64 version 1 and number of items; of each item four u64: bytes of its name, type,
number of dimensions, bytes of its data; all names, each with a final NUL; all shapes, int32; u64
padding and as many bytes; all data. A matrix of intgemm is stored output by output, with a float32
behind it by which an integer is divided.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.importing.compressed import read_unpacked
from models.importing.npz import MOST_ARRAYS, MOST_DIMENSIONS
from models.importing.refusals import NotACheckpoint, UnsupportedCheckpoint

VERSION = 1
LARGEST = 1 << 30
"""Bytes of an unpacked model; Firefox's have 43 MB at most."""
LONGEST_NAME = 1000
MOST_PADDING = 512
"""Bytes behind an item, or before all data, that only align what follows."""
_INTGEMM8 = 0x4101
_TYPES: dict[int, np.dtype[Any]] = {
    0x0101: np.dtype("<i1"),
    0x0104: np.dtype("<i4"),
    0x0402: np.dtype("<f2"),
    0x0404: np.dtype("<f4"),
    0x0408: np.dtype("<f8"),
}
_UNREADABLE = {
    0x5101: "intgemm8 prepared for SSSE3",
    0x6101: "intgemm8 prepared for AVX2",
    0x7101: "intgemm8 prepared for AVX-512",
    0x4102: "intgemm16",
}


@dataclass(frozen=True, slots=True)
class Item:
    kind: int
    shape: tuple[int, ...]
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class Quantised:
    """A matrix of intgemm: integer / ``multiplier`` is the value."""

    values: NDArray[np.int8]
    """``[outputs, inputs]``, or the embeddings ``[V, W]``."""
    multiplier: np.float32

    @property
    def floats(self) -> NDArray[np.float32]:
        return np.divide(self.values, self.multiplier, dtype=np.float32)


class Binary:
    """The arrays of a file by name. Raises ``NotACheckpoint`` if the file is damaged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._content = memoryview(read_unpacked(path, LARGEST))
        self._items: dict[str, Item] = {}
        try:
            self._index()
        except (struct.error, UnicodeDecodeError) as error:
            raise NotACheckpoint(f"{path} is no model of Marian, or damaged: {error}") from error

    def __contains__(self, name: str) -> bool:
        return name in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._items[name].shape

    def is_quantised(self, name: str) -> bool:
        return self._items[name].kind == _INTGEMM8

    def read(self, name: str) -> NDArray[Any]:
        """An array that is not quantised; raises ``UnsupportedCheckpoint`` for other types."""
        item = self._items[name]
        if item.kind not in _TYPES:
            kind = _UNREADABLE.get(item.kind, f"type {item.kind:#x}")
            raise UnsupportedCheckpoint(
                f"{self.path}: {name} is in {kind}; intgemm8 and floats can be imported"
            )
        content = self._content[item.start : item.start + item.size]
        return np.frombuffer(content, _TYPES[item.kind]).reshape(item.shape)

    def quantised(self, name: str) -> Quantised:
        """A matrix ``[inputs, outputs]`` of intgemm, or a scalar."""
        item = self._items[name]
        count = math.prod(item.shape)
        (multiplier,) = struct.unpack_from("<f", self._content, item.start + count)
        if not (math.isfinite(multiplier) and multiplier > 0):
            raise NotACheckpoint(f"{self.path}: {name} has the multiplier {multiplier}")
        values = np.frombuffer(self._content[item.start : item.start + count], np.int8)
        shape = item.shape if name.endswith("Wemb") else item.shape[::-1]
        return Quantised(values.reshape(shape), np.float32(multiplier))

    def _index(self) -> None:
        content, path = self._content, self.path
        version, count = struct.unpack_from("<QQ", content)
        if version != VERSION:
            raise NotACheckpoint(
                f"{path} has version {version} of Marian's binary format; {VERSION} can be read"
            )
        if count > MOST_ARRAYS:
            raise NotACheckpoint(f"{path} has {count} arrays; {MOST_ARRAYS} are allowed")
        headers = [struct.unpack_from("<4Q", content, 16 + 32 * i) for i in range(count)]
        at = 16 + 32 * count
        names: list[str] = []
        for length, *_ in headers:
            if not 2 <= length <= LONGEST_NAME:
                raise NotACheckpoint(f"{path} has a name of {length} bytes")
            stored = bytes(content[at : at + length])
            if len(stored) != length or stored.find(b"\0") != length - 1:
                raise NotACheckpoint(f"{path} has a name that does not end with its only NUL")
            names.append(stored[:-1].decode("utf-8"))
            at += length
        shapes = []
        for name, (_, _, dimensions, _) in zip(names, headers, strict=True):
            if dimensions > MOST_DIMENSIONS:
                raise NotACheckpoint(f"{path}: {name} has {dimensions} dimensions")
            shapes.append(struct.unpack_from(f"<{dimensions}i", content, at))
            at += 4 * dimensions
        (padding,) = struct.unpack_from("<Q", content, at)
        if padding > MOST_PADDING:
            raise NotACheckpoint(f"{path} has {padding} bytes of padding")
        at += 8 + padding
        for name, shape, (_, kind, _, size) in zip(names, shapes, headers, strict=True):
            if name in self._items:
                raise NotACheckpoint(f"{path} has {name} twice")
            if size > len(content) - at:
                raise NotACheckpoint(f"{path} ends within {name}")
            self._items[name] = Item(kind, shape, at, self._bytes_of(name, kind, shape, size))
            at += size
        if at != len(content):
            raise NotACheckpoint(f"{path} has {len(content) - at} bytes behind its last array")

    def _bytes_of(self, name: str, kind: int, shape: tuple[int, ...], size: int) -> int:
        """Bytes of an item without padding."""
        if kind not in _TYPES and kind != _INTGEMM8:
            return size
        if any(length < 0 for length in shape):
            raise NotACheckpoint(f"{self.path}: {name} has the shape {list(shape)}")
        count = math.prod(shape)
        needed = count + 4 if kind == _INTGEMM8 else count * _TYPES[kind].itemsize
        if not needed <= size < needed + MOST_PADDING:
            raise NotACheckpoint(
                f"{self.path}: {name} has the shape {list(shape)} of type {kind:#x}, and {size} "
                "bytes"
            )
        return needed
