"""Keys and values of the sentences in a batch, and which row sees which entry.

P  slots    C  entries of a cache    D  width of a head    H  heads    (others: backend.py)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from models.bundle.manifest import Dimensions
from service.runtime.backend import FloatArray, IntArray
from service.runtime.memory import Memory, Stretches

_WORD = 64
_FULL = np.uint64(2**_WORD - 1)
_ONE = np.uint64(1)


class CacheFull(MemoryError):
    """Keys and values would take more memory than they may."""

    def __init__(self, needed: int, budget: int) -> None:
        super().__init__(
            f"keys and values of this batch take {needed >> 20} MiB; {budget >> 20} MiB are allowed"
        )


class Budget:
    """Bytes that all pools of a backend may take together."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._taken = 0

    def take(self, size: int) -> None:
        """Raises ``CacheFull`` if there are not so many left."""
        if self._taken + size > self._size:
            raise CacheFull(self._taken + size, self._size)
        self._taken += size

    def give(self, size: int) -> None:
        """Give back what was taken."""
        self._taken -= size


class Pool:
    """For every decoder layer a key and a value array ``[P, H, length, D]``.

    ``length`` is a multiple of ``bucket``, so that shapes repeat. Unused entries hold finite
    numbers: a mask multiplies them by nothing, and nothing times NaN is NaN.
    """

    def __init__(
        self,
        kind: str,
        dimensions: Dimensions,
        slots: int,
        bucket: int,
        memory: Memory,
        budget: Budget,
        element: type[np.floating],
    ) -> None:
        self.heads, self.width = dimensions.heads, dimensions.head_width
        self.element = element
        self._entry = self.width * np.dtype(element).itemsize
        self._slots = slots
        self._bucket = bucket
        self._memory = memory
        self._budget = budget
        self.length = 0
        self._addresses: dict[str, int] = {
            f"{kind}_{part}.{layer}": 0
            for layer in range(dimensions.decoder_layers)
            for part in ("keys", "values")
        }

    def resize(self, needed: int, used_slots: int) -> bool:
        """Have room for so many entries per slot, and not much more; true if arrays have moved.

        The first ``used_slots`` slots keep what fits. Raises ``CacheFull`` and changes nothing if
        there is no room.
        """
        length = max(-(-needed // self._bucket), 1) * self._bucket
        # Shrinking costs a copy of everything, so a little waste is borne.
        if length == self.length or 0.6 * self.length < length < self.length:
            return False
        addresses = self._allocate(length)
        kept = min(length, self.length) * self._entry
        if kept and used_slots:
            for name, address in addresses.items():
                self._memory.copy(
                    Stretches(address, length * self._entry),
                    Stretches(self._addresses[name], self.length * self._entry),
                    kept,
                    used_slots * self.heads,
                )
        self.release()
        self._addresses = addresses
        self.length = length
        return True

    def arrays(self) -> Iterator[tuple[str, int]]:
        """Name and address of every array."""
        yield from self._addresses.items()

    def move(self, origin: int, slot: int) -> None:
        width = self.heads * self.length * self._entry
        for address in self._addresses.values():
            self._memory.copy(
                Stretches(address + slot * width, width),
                Stretches(address + origin * width, width),
                width,
                1,
            )

    def put(self, name: str, first_slot: int, source: int, slots: int, length: int) -> None:
        """Store ``[slots, H, length, D]`` from an address, zeros behind it."""
        pitch = self.length * self._entry
        target = self._addresses[name] + first_slot * self.heads * pitch
        filled = length * self._entry
        rows = slots * self.heads
        self._memory.copy(Stretches(target, pitch), Stretches(source, filled), filled, rows)
        if filled < pitch:
            self._memory.clear(Stretches(target + filled, pitch), pitch - filled, rows)

    def clear(self, first_slot: int, slots: int) -> None:
        width = slots * self.heads * self.length * self._entry
        if not width:
            return
        for address in self._addresses.values():
            start = address + first_slot * self.heads * self.length * self._entry
            self._memory.clear(Stretches(start, width), width, 1)

    def release(self) -> None:
        for name, address in self._addresses.items():
            if address:
                self._memory.free(address)
                self._budget.give(self._size(self.length))
            self._addresses[name] = 0
        self.length = 0

    def _size(self, length: int) -> int:
        return self._slots * self.heads * length * self._entry

    def _allocate(self, length: int) -> dict[str, int]:
        """All arrays, or none."""
        addresses: dict[str, int] = {}
        size = self._size(length)
        try:
            for name in self._addresses:
                self._budget.take(size)
                try:
                    addresses[name] = self._memory.allocate(size)
                except MemoryError:
                    self._budget.give(size)
                    raise
        except MemoryError:
            for address in addresses.values():
                self._memory.free(address)
                self._budget.give(size)
            raise
        return addresses


class Ancestry:
    """Which entries of its sentence's cache each row sees: those its own prefix has written.

    An entry is a bit. Entries that no row sees are free to be written again.
    """

    def __init__(self, slots: int, rows_per_slot: int) -> None:
        self._seen_PKW = np.zeros((slots, rows_per_slot, 1), np.uint64)

    def clear(self, first_slot: int, slots: int) -> None:
        self._seen_PKW[first_slot : first_slot + slots] = 0

    def move(self, origin: int, slot: int) -> None:
        self._seen_PKW[slot] = self._seen_PKW[origin]

    def highest(self, sentences: int) -> int:
        """One more than the highest entry that any row of the first sentences sees."""
        words = np.bitwise_or.reduce(self._seen_PKW[:sentences], axis=(0, 1))
        return max(
            (i * _WORD + int(word).bit_length() for i, word in enumerate(words) if word), default=0
        )

    def append(self, parents_BK: IntArray) -> IntArray:
        """Give every row of the first B sentences a free entry; row k continues ``parents[k]``.

        A row whose parent is ``NOBODY`` gets one, too, for what it computes must go somewhere, but
        nobody will see it. Returns the entries ``[B, K]``.
        """
        sentences, rows = parents_BK.shape
        live_BK1 = (parents_BK >= 0)[:, :, None]
        seen_BKW = np.take_along_axis(
            self._seen_PKW[:sentences], np.maximum(parents_BK, 0)[:, :, None], axis=1
        )
        seen_BKW *= live_BK1
        used_BW = np.bitwise_or.reduce(seen_BKW, axis=1)
        if (np.bitwise_count(used_BW).sum(axis=1, dtype=np.int64) + rows).max() > (
            used_BW.shape[1] * _WORD
        ):
            self._widen()
            seen_BKW, used_BW = (_widened(array) for array in (seen_BKW, used_BW))
        entries_BK = np.empty((sentences, rows), np.int32)
        every = np.arange(sentences)
        for row in range(rows):
            word_B = (used_BW == _FULL).argmin(axis=1) if used_BW.shape[1] > 1 else 0
            free_B = ~used_BW[every, word_B]
            lowest_B = free_B & (~free_B + _ONE)
            used_BW[every, word_B] |= lowest_B
            seen_BKW[every, row, word_B] |= lowest_B
            entries_BK[:, row] = np.bitwise_count(lowest_B - _ONE) + np.multiply(word_B, _WORD)
        self._seen_PKW[:sentences] = 0
        np.multiply(seen_BKW, live_BK1, out=self._seen_PKW[:sentences, :rows])
        self._visible_BKW = seen_BKW
        return entries_BK

    def write_bias(self, bias_BKC: FloatArray, hidden: float) -> None:
        """What rows may see after ``append``, as numbers to add to attention scores."""
        visible = np.unpackbits(
            self._visible_BKW.view(np.uint8), axis=-1, count=bias_BKC.shape[-1], bitorder="little"
        )
        np.multiply(visible == 0, bias_BKC.dtype.type(hidden), out=bias_BKC)

    def _widen(self) -> None:
        self._seen_PKW = _widened(self._seen_PKW)


def _widened(array: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """One more word in the last dimension."""
    return np.concatenate((array, np.zeros_like(array[..., :1])), axis=-1)


def visible_source(lengths_B: NDArray[np.int64], length: int) -> NDArray[np.bool_]:
    """``[B, S]``: a sentence sees all of its source and no padding."""
    seen: NDArray[np.bool_] = np.arange(length) < lengths_B[:, None]
    return seen
