"""Compact set of text hashes for deduplication, about twenty bytes per text."""

from __future__ import annotations

from array import array
from hashlib import blake2b
from pathlib import Path

_READ = 1 << 20
"""Keys that are read from a file at once."""


class Seen:
    """An add-only set of texts that keeps a 64-bit hash of each.

    Among a hundred million texts, the probability of a collision is one in three thousand.
    """

    def __init__(self) -> None:
        self._count = 0
        self._places = _empty(1 << 12)

    @classmethod
    def read(cls, path: Path, count: int) -> Seen:
        """The set of the first ``count`` keys of a file; raises ``EOFError`` if it has fewer."""
        seen = cls()
        with path.open("rb") as file:
            for begin in range(0, count, _READ):
                keys = array("Q")
                keys.fromfile(file, min(_READ, count - begin))
                for key in keys:
                    seen.add_key(key)
        return seen

    def add(self, text: str) -> bool:
        """Add a text; returns whether it was absent."""
        return self.add_key(key_of(text))

    def add_key(self, key: int) -> bool:
        """Add a text by its ``key_of``; returns whether it was absent."""
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


def key_of(text: str) -> int:
    """Hash of a text. Zero marks a free slot, and is the hash of none."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") or 1


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
