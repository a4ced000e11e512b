"""Key/value cache pools, and the visibility of cache entries to beam rows.

P  slots    C  entries of a cache    D  width of a head    H  heads    (other axes: backend.py)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from models.bundle.manifest import Dimensions
from service.runtime.backend import CacheUse, FloatArray, IntArray
from service.runtime.memory import Memory, Stretches

_WORD = 64
_FULL = np.uint64(2**_WORD - 1)
_ONE = np.uint64(1)

_SPARE = 4
"""Memory is released when it is this many times the needed size."""


class CacheFull(MemoryError):
    """Keys and values need more memory than the budget allows."""

    def __init__(self, needed: int, budget: int) -> None:
        super().__init__(
            f"keys and values of this batch take {needed >> 20} MiB; {budget >> 20} MiB are allowed"
        )


class Budget:
    """Shared memory budget of all pools of a backend, in bytes."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._taken = 0

    def take(self, size: int) -> None:
        """Reserve ``size`` bytes, or release if negative; raises ``CacheFull`` over budget."""
        if size > 0 and self._taken + size > self._size:
            raise CacheFull(self._taken + size, self._size)
        self._taken += size

    @property
    def use(self) -> CacheUse:
        return CacheUse(self._taken, self._size)


class Pool:
    """A key and a value array ``[P, H, length, D]`` for every decoder layer.

    ``length`` is a multiple of ``bucket``, so that shapes repeat. Touched memory is kept while it
    fits, because a new page costs more than a copied one. Unused entries must hold finite numbers:
    attention multiplies them by zero, and zero times NaN is NaN.
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
        self._aside, self._aside_size = memory.allocate(0), 0
        self._reserved = 0
        """Allocated bytes of each array."""
        self._addresses: dict[str, int] = {
            f"{kind}_{part}.{layer}": memory.allocate(0)
            for layer in range(dimensions.decoder_layers)
            for part in ("keys", "values")
        }

    def resize(self, needed: int, used_slots: int) -> bool:
        """Resize to about ``needed`` entries per slot; true if shapes have changed.

        The first ``used_slots`` slots keep the entries that fit. Raises ``CacheFull`` and changes
        nothing if the budget is exceeded.
        """
        length = max(-(-needed // self._bucket), 1) * self._bucket
        # Shrinking copies all entries, so up to 40 % unused length is accepted.
        if length == self.length or 0.6 * self.length < length < self.length:
            return False
        if self._size(length) > self._reserved:
            self._reserve(length)
        self._spread(length, used_slots)
        if self._size(length) * _SPARE <= self._reserved:
            self._reserve(length)
        self.length = length
        return True

    def _reserve(self, length: int) -> None:
        """Reallocate all arrays for ``length`` entries; restores them if one allocation fails."""
        size = self._size(length)
        difference = (size - self._reserved) * len(self._addresses)
        self._budget.take(difference)
        grown: list[str] = []
        try:
            for name, address in self._addresses.items():
                self._addresses[name] = self._memory.resize(address, self._reserved, size)
                grown.append(name)
        except MemoryError:
            for name in grown:
                address = self._addresses[name]
                self._addresses[name] = self._memory.resize(address, size, self._reserved)
            self._budget.take(-difference)
            raise
        self._reserved = size

    def _spread(self, length: int, used_slots: int) -> None:
        """Move the entries of the used slots to the layout of another length."""
        kept = min(length, self.length) * self._entry
        rows = used_slots * self.heads
        if not kept or not rows:
            return
        old_pitch, pitch = self.length * self._entry, length * self._entry
        # Old and new layout overlap, so each array is copied through a scratch buffer.
        if kept * rows > self._aside_size:
            self._aside = self._memory.resize(self._aside, self._aside_size, kept * rows)
            self._aside_size = kept * rows
        aside = self._aside
        for address in self._addresses.values():
            self._memory.copy(Stretches(aside, kept), Stretches(address, old_pitch), kept, rows)
            self._memory.copy(Stretches(address, pitch), Stretches(aside, kept), kept, rows)

    def place(self, name: str, slot: int) -> int:
        """Address of a slot in the array ``name``."""
        return self._addresses[name] + slot * self.heads * self.length * self._entry

    def arrays(self) -> Iterator[tuple[str, int]]:
        """Name and address of every array."""
        yield from self._addresses.items()

    def move(self, origin: int, slot: int, length: int) -> None:
        """Copy the first ``length`` entries of slot ``origin`` to ``slot``."""
        pitch = self.length * self._entry
        for name in self._addresses:
            self._memory.copy(
                Stretches(self.place(name, slot), pitch),
                Stretches(self.place(name, origin), pitch),
                length * self._entry,
                self.heads,
            )

    def put(self, name: str, slots: Sequence[int], source: int, length: int) -> None:
        """Copy ``[len(slots), H, length, D]`` from address ``source``; clear later entries."""
        pitch, filled = self.length * self._entry, length * self._entry
        for number, slot in enumerate(slots):
            target = self.place(name, slot)
            origin = Stretches(source + number * self.heads * filled, filled)
            self._memory.copy(Stretches(target, pitch), origin, filled, self.heads)
            if filled < pitch:
                self._memory.clear(Stretches(target + filled, pitch), pitch - filled, self.heads)

    def clear(self, first_slot: int, slots: int) -> None:
        width = slots * self.heads * self.length * self._entry
        if not width:
            return
        for name in self._addresses:
            self._memory.clear(Stretches(self.place(name, first_slot), width), width, 1)

    def release(self) -> None:
        """Free all memory. The pool cannot be used afterwards."""
        for address in (self._aside, *self._addresses.values()):
            self._memory.free(address)
        self._addresses = {}

    def _size(self, length: int) -> int:
        return self._slots * self.heads * length * self._entry


class Ancestry:
    """Bit sets of the cache entries that each row sees: the entries of its own prefix.

    An entry that no row sees is free and can be overwritten.
    """

    def __init__(self, slots: int, rows_per_slot: int) -> None:
        self._seen_PKW = np.zeros((slots, rows_per_slot, 1), np.uint64)

    def clear(self, first_slot: int, slots: int) -> None:
        self._seen_PKW[first_slot : first_slot + slots] = 0

    def move(self, origin: int, slot: int) -> None:
        self._seen_PKW[slot] = self._seen_PKW[origin]

    def highest(self, slots: slice) -> int:
        """One more than the highest entry visible to any row of these slots."""
        words = np.bitwise_or.reduce(self._seen_PKW[slots], axis=(0, 1))
        return max(
            (i * _WORD + int(word).bit_length() for i, word in enumerate(words) if word), default=0
        )

    def append(self, parents_BK: IntArray) -> IntArray:
        """Assign a free entry to every row of the first B sentences, where row k continues
        ``parents[k]``.

        An empty row (parent ``EMPTY_ROW``) gets an entry too, because its output must be stored
        somewhere. No other row sees it. Returns the entries ``[B, K]``.
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
        """Write the attention mask after ``append``: 0 for visible entries, else ``hidden``."""
        visible = np.unpackbits(
            self._visible_BKW.view(np.uint8), axis=-1, count=bias_BKC.shape[-1], bitorder="little"
        )
        np.multiply(visible == 0, bias_BKC.dtype.type(hidden), out=bias_BKC)

    def _widen(self) -> None:
        self._seen_PKW = _widened(self._seen_PKW)


def _widened(array: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The array with one more zero word in the last dimension."""
    return np.concatenate((array, np.zeros_like(array[..., :1])), axis=-1)


def visible_source(lengths_B: NDArray[np.int64], length: int) -> NDArray[np.bool_]:
    """``[B, S]``: true for source tokens, false for padding."""
    seen: NDArray[np.bool_] = np.arange(length) < lengths_B[:, None]
    return seen
