"""Finds the unit of a translation memory that is most like a sentence.

Similarity is ``rapidfuzz.fuzz.ratio``: twice the longest common subsequence of characters over the
characters of both, in percent. Units are sorted by length, as only texts of like length can be
similar. A short sentence is compared with all units of similar length. A longer one is compared
with those that share most of its words, weighted by rarity, as comparing takes longer, too.
"""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz, process

from models.text import visible
from service.text.types import LanguagePair

_COMPARED_AT_ONCE = 1_000
"""Units of one call, which holds the interpreter lock."""
_SHORT = 64
"""Characters that are compared as bits of one machine word."""
_MOST_CANDIDATES = 300
_WORD = re.compile(r"\w+")
EXACT = 100


@dataclass(frozen=True, slots=True)
class Unit:
    """A segment of a memory and its translation."""

    source: str
    target: str


Use = Literal["exact", "adapted", "none"]
"""Use of a match: its translation was taken as it is, or adapted, or only named."""


@dataclass(frozen=True, slots=True)
class MemoryMatch:
    """A unit, and how similar its source is to a sentence, in percent."""

    unit: Unit
    score: int
    use: Use = "none"


class MemoryIndex:
    """The units of one language pair. Immutable."""

    def __init__(self, units: Iterable[Unit]) -> None:
        """The last one counts of units with equal sources."""
        by_source = {_compared(unit.source): unit for unit in units}
        self._by_source = by_source
        self._sources = sorted(by_source, key=len)
        self._lengths = [len(source) for source in self._sources]
        units_of: dict[str, array[int]] = {}
        for number, source in enumerate(self._sources):
            for word in _words(source):
                units_of.setdefault(word, array("i")).append(number)
        self._units_of = units_of

    def __len__(self) -> int:
        return len(self._sources)

    def exact(self, text: str) -> MemoryMatch | None:
        """The unit whose source is the text, but for blanks."""
        unit = self._by_source.get(_compared(text))
        return None if unit is None else MemoryMatch(unit, EXACT, "exact")

    def best(
        self, text: str, least: int, check: Callable[[], None] = lambda: None
    ) -> MemoryMatch | None:
        """The most similar unit with at least a score of ``least``; ``check`` is called often.

        Time is in proportion to the units of a similar length.
        """
        if (found := self.exact(text)) is not None:
            return found
        wanted = _compared(text)
        if not wanted or least >= EXACT:
            return None
        # The common subsequence is no longer than the shorter text.
        shortest = len(wanted) * least / (2 * EXACT - least)
        longest = len(wanted) * (2 * EXACT - least) / max(least, 1)
        first = bisect_left(self._lengths, shortest)
        last = bisect_right(self._lengths, longest)
        if first == last:
            return None
        best, cutoff = None, float(least)
        candidates: Sequence[str] = self._sources
        if len(wanted) > _SHORT:
            candidates = [self._sources[n] for n in self._sharing_words(wanted, first, last)]
            first, last = 0, len(candidates)
        for start in range(first, last, _COMPARED_AT_ONCE):
            check()
            some = candidates[start : min(start + _COMPARED_AT_ONCE, last)]
            found_here = process.extractOne(wanted, some, scorer=fuzz.ratio, score_cutoff=cutoff)
            if found_here is not None:
                best, cutoff = found_here[0], found_here[1]
        if best is None:
            return None
        return MemoryMatch(self._by_source[best], min(int(cutoff), EXACT - 1))

    def _sharing_words(self, text: str, first: int, last: int) -> NDArray[np.intp]:
        """Numbers of the units, from ``first`` to ``last``, that share most words with a text."""
        weights = np.zeros(last - first, np.float32)
        for word in _words(text):
            if (numbers := self._units_of.get(word)) is not None:
                inside = numbers[bisect_left(numbers, first) : bisect_left(numbers, last)]
                weights[np.frombuffer(inside, np.int32) - first] += math.log(
                    1 + len(self) / len(numbers)
                )
        best = np.argpartition(-weights, min(_MOST_CANDIDATES, len(weights)) - 1)[:_MOST_CANDIDATES]
        chosen: NDArray[np.intp] = best[weights[best] > 0] + first
        return chosen


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """A translation memory for the texts of one language pair."""

    pair: LanguagePair
    index: MemoryIndex
    threshold: int
    """The least score of a match."""


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _compared(text: str) -> str:
    """The text without invisible characters, and with single blanks."""
    return " ".join(visible(text).split())
