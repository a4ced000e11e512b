"""Counts test sentences that occur in the training text, and finds filters that drop too much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Set

from training.data.cleaning import normalised, sides_of
from training.data.corpus import Pair

_MOST_LEAKED = 0.01
"""Share of a test set that may occur in the training text without a warning."""
_MOST_DROPPED = 0.05
"""Share of a corpus that one filter may drop without a warning."""
_EXPECTED = frozenset({"duplicate", "held out", "boilerplate"})
"""Filters that drop much of a sound corpus."""


class TestSet:
    """A test set, and which of its pairs share a side of four or more words with training text."""

    __test__ = False

    def __init__(self, name: str, pairs: Iterable[Pair]) -> None:
        self.name = name
        self.pairs = 0
        self._numbers: dict[str, list[int]] = {}
        self.found: set[int] = set()
        """Numbers of the pairs that share a side."""
        for number, pair in enumerate(pairs):
            self.pairs += 1
            for side in sides_of(normalised(pair)):
                self._numbers.setdefault(side, []).append(number)

    def note(self, sides: Iterable[str]) -> None:
        """Record a training pair, in the form of ``sides_of``."""
        for side in sides:
            self.found.update(self._numbers.get(side, ()))

    @property
    def sides(self) -> Set[str]:
        return self._numbers.keys()

    @property
    def leaked(self) -> int:
        return len(self.found)

    def warnings(self) -> Iterator[str]:
        if self.leaked > _MOST_LEAKED * self.pairs:
            yield (
                f"{self.leaked:,} of the {self.pairs:,} pairs of {self.name} have a side that is "
                "also in the training text, so that scores are too good; name the set in "
                "data.held_out to drop these pairs from the training text"
            )


def warnings_of(name: str, read: int, dropped: Counter[str]) -> Iterator[str]:
    """A warning for each filter that drops an unusual share of the corpus ``name``."""
    for objection, count in dropped.items():
        if objection not in _EXPECTED and count > _MOST_DROPPED * read:
            hint = (
                "; look whether line N of one side is the translation of line N of the other"
                if objection in ("length ratio", "other numbers")
                else ""
            )
            yield f"{name}: {count / read:.0%} of the pairs were dropped as {objection!r}{hint}"
