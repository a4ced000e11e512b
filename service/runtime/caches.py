"""Key/value memory on the host: arrays that grow in buckets, and which row sees which entry.

Knows places in arrays and nothing of slots, sentences or beams; see ``service.runtime.onnx``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from models.bundle.manifest import Dimensions
from service.runtime.backend import FloatArray, Limits

HIDDEN = np.float32(-1e9)
"""Added to a score to hide it."""

_SELF_BUCKET = 16
_CROSS_BUCKET = 8


class _Pool:
    """For every decoder layer a key and a value array ``[P, H, length, D]``, grown as needed.

    Unused entries are zeros: a mask multiplies them by nothing, and nothing times NaN is NaN.
    """

    def __init__(self, kind: str, dimensions: Dimensions, places: int, bucket: int) -> None:
        self._heads, self._width = dimensions.heads, dimensions.head_width
        self._places = places
        self._bucket = bucket
        self.length = 0
        self._arrays: dict[str, FloatArray] = {
            f"{kind}_{part}.{layer}": self._empty(0)
            for layer in range(dimensions.decoder_layers)
            for part in ("keys", "values")
        }

    def _empty(self, length: int) -> FloatArray:
        return np.zeros((self._places, self._heads, length, self._width), np.float32)

    def reserve(self, length: int) -> None:
        """Make room for so many entries per place; all arrays grow, or none if memory is short."""
        if length <= self.length:
            return
        grown = -(-length // self._bucket) * self._bucket
        arrays = {name: self._empty(grown) for name in self._arrays}
        for name, array in self._arrays.items():
            arrays[name][:, :, : self.length] = array
        self._arrays, self.length = arrays, grown

    def views(self, places: int) -> Iterator[tuple[str, FloatArray]]:
        for name, array in self._arrays.items():
            yield name, array[:places]

    def move(self, origin: int, place: int) -> None:
        for array in self._arrays.values():
            array[place] = array[origin]

    def put(self, name: str, place: int, values_HLD: FloatArray) -> None:
        self._arrays[name][place, :, : values_HLD.shape[1]] = values_HLD
        self._arrays[name][place, :, values_HLD.shape[1] :] = 0

    def wipe(self, places: Sequence[int]) -> None:
        for array in self._arrays.values():
            array[places] = 0

    def release(self) -> None:
        for name in self._arrays:
            self._arrays[name] = self._empty(0)
        self.length = 0


class SelfCache:
    """The decoder's own keys and values, and which of them each row of a place sees."""

    def __init__(self, dimensions: Dimensions, limits: Limits) -> None:
        self._pool = _Pool("self", dimensions, limits.slots, _SELF_BUCKET)
        self._heads = dimensions.heads
        self._seen_PKC = np.zeros((limits.slots, limits.rows_per_slot, 0), np.bool_)

    def clear(self, places: Sequence[int]) -> None:
        """Make places ready for sentences of which nothing has been decoded."""
        self._seen_PKC[places] = False
        self._pool.wipe(places)

    def append(self, parents_BK: NDArray[np.int64]) -> tuple[NDArray[np.int64], FloatArray]:
        """Give every row of the first B places an entry; row k continues row ``parents[k]``.

        A parent of −1 marks a row that is only there to fill the batch. Returns the indices
        ``[B, K, H, 3]`` at which the step writes, and the bias ``[B, 1, K, C]`` with which each
        row sees its ancestors' entries and its own.
        """
        sentences, rows = parents_BK.shape
        live_BK1 = (parents_BK >= 0)[:, :, None]
        seen_BKC = np.take_along_axis(
            self._seen_PKC[:sentences], np.maximum(parents_BK, 0)[:, :, None], axis=1
        )
        seen_BKC &= live_BK1
        used_BC = seen_BKC.any(axis=1)
        needed = int(used_BC.sum(axis=1).max()) + rows
        self._pool.reserve(needed)
        if more := self._pool.length - used_BC.shape[1]:
            self._seen_PKC = np.pad(self._seen_PKC, ((0, 0), (0, 0), (0, more)))
            seen_BKC = np.pad(seen_BKC, ((0, 0), (0, 0), (0, more)))
            used_BC = np.pad(used_BC, ((0, 0), (0, more)))
        # A stable sort of used-or-not lists the free entries first, lowest first.
        entries_BK = np.argsort(used_BC, axis=1, kind="stable")[:, :rows]
        np.put_along_axis(seen_BKC, entries_BK[:, :, None], True, axis=2)
        bias_B1KC = np.where(seen_BKC, np.float32(0), HIDDEN)[:, None]
        self._seen_PKC[:sentences] = False
        self._seen_PKC[:sentences, :rows] = seen_BKC & live_BK1

        indices = np.empty((sentences, rows, self._heads, 3), np.int64)
        indices[..., 0] = np.arange(sentences)[:, None, None]
        indices[..., 1] = np.arange(self._heads)
        indices[..., 2] = entries_BK[:, :, None]
        return indices, bias_B1KC

    def views(self, places: int) -> Iterator[tuple[str, FloatArray]]:
        return self._pool.views(places)

    def move(self, origin: int, place: int) -> None:
        self._pool.move(origin, place)
        self._seen_PKC[place] = self._seen_PKC[origin]

    def release(self) -> None:
        self._pool.release()
        self._seen_PKC = self._seen_PKC[:, :, :0]


class CrossCache:
    """What the encoder made of each place's source, and how long that source is."""

    def __init__(self, dimensions: Dimensions, limits: Limits) -> None:
        self._pool = _Pool("cross", dimensions, limits.slots, _CROSS_BUCKET)
        self._lengths_P = np.zeros(limits.slots, np.int64)

    def store(
        self, places: Sequence[int], lengths: Sequence[int], encoded: Mapping[str, FloatArray]
    ) -> None:
        self._pool.reserve(max(lengths))
        for name, array_BHSD in encoded.items():
            for i, (place, length) in enumerate(zip(places, lengths, strict=True)):
                self._pool.put(name, place, array_BHSD[i, :, :length])
        self._lengths_P[places] = lengths

    def bias(self, sentences: int, rows: int) -> FloatArray:
        """``[B, 1, K, S]``: every row of a sentence sees all of its source and no padding."""
        visible_BS = np.arange(self._pool.length) < self._lengths_P[:sentences, None]
        bias_B11S = np.where(visible_BS, np.float32(0), HIDDEN)[:, None, None]
        return np.repeat(bias_B11S, rows, axis=2)

    def views(self, places: int) -> Iterator[tuple[str, FloatArray]]:
        return self._pool.views(places)

    def move(self, origin: int, place: int) -> None:
        self._pool.move(origin, place)
        self._lengths_P[place] = self._lengths_P[origin]

    def release(self) -> None:
        self._pool.release()
