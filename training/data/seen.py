"""Compact set of text hashes for deduplication, about twenty bytes per text."""

from __future__ import annotations

from array import array
from hashlib import blake2b


class Seen:
    """An add-only set of texts that keeps a 64-bit hash of each.

    Among a hundred million texts, the probability of a collision is one in three thousand.
    """

    def __init__(self) -> None:
        self._count = 0
        self._places = _empty(1 << 12)

    def add(self, text: str) -> bool:
        """Add a text; returns whether it was absent."""
        # Zero marks a free slot.
        key = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") or 1
        if not _put(self._places, key):
            return False
        self._count += 1
        if self._count * 3 > len(self._places) * 2:
            larger = _empty(2 * len(self._places))
            for kept in self._places:
                if kept:
                    _put(larger, kept)
            self._places = larger
        return True


def _empty(places: int) -> array[int]:
    return array("Q", bytes(8 * places))


def _put(places: array[int], key: int) -> bool:
    """Insert by linear probing; false if present. The number of slots is a power of two."""
    last = len(places) - 1
    place = key & last
    while found := places[place]:
        if found == key:
            return False
        place = (place + 1) & last
    places[place] = key
    return True
