"""Room in the batch of one iteration: its bounds, and the share of each caller.

While several callers have sentences, each may occupy an equal share of the batch: of the slots, the
source tokens and the rows, whichever it has most of (Ghodsi et al. 2011, dominant resource
fairness). One sentence is always allowed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Protocol


class Occupant(Protocol):
    """A sentence that runs or may run."""

    @property
    def caller(self) -> str: ...
    @property
    def source_length(self) -> int: ...
    @property
    def rows_cost(self) -> float: ...


@dataclass(frozen=True, slots=True)
class BatchBounds:
    """Most that runs together. A sentence that runs alone may exceed all but ``slots``."""

    slots: int
    tokens: int
    """Source tokens of all sentences, padding included."""
    rows: float
    """Rows of all sentences, in rows of beam search."""


class Room:
    """What the bounds leave beside the sentences in the batch. Changes with ``take``."""

    def __init__(
        self, bounds: BatchBounds, running: Iterable[Occupant], waiting: Collection[str]
    ) -> None:
        """``waiting`` are the callers that have waiting sentences."""
        self._bounds = bounds
        self._inside: list[Occupant] = []
        self._longest = 0
        self._rows = 0.0
        self._occupied: defaultdict[str, float] = defaultdict(float)
        """Part of the batch by caller."""
        for sentence in running:
            self.take(sentence)
        callers = len(self._occupied.keys() | set(waiting))
        self._share = 1 / callers if callers > 1 else math.inf

    @property
    def slots(self) -> int:
        """Number of free slots."""
        return self._bounds.slots - len(self._inside)

    def fits(self, sentence: Occupant) -> bool:
        """Whether the bounds leave room for a sentence."""
        count = len(self._inside) + 1
        padded = count * max(self._longest, sentence.source_length)
        rows = self._rows + sentence.rows_cost
        within = padded <= self._bounds.tokens and rows <= self._bounds.rows
        return count <= self._bounds.slots and (within or count == 1)

    def is_closed_to(self, caller: str) -> bool:
        """Whether a caller has its share already."""
        return self._occupied.get(caller, 0.0) >= self._share

    def can_spare(self, sentence: Occupant) -> bool:
        """Whether the caller of a sentence in the batch has more than its share without it."""
        return self._occupied[sentence.caller] - self._part(sentence) >= self._share

    def take(self, sentence: Occupant) -> None:
        self._inside.append(sentence)
        self._longest = max(self._longest, sentence.source_length)
        self._rows += sentence.rows_cost
        self._occupied[sentence.caller] += self._part(sentence)

    def release(self, sentence: Occupant) -> None:
        """Undo ``take``."""
        self._inside.remove(sentence)
        self._longest = max((each.source_length for each in self._inside), default=0)
        self._rows -= sentence.rows_cost
        self._occupied[sentence.caller] -= self._part(sentence)

    def _part(self, sentence: Occupant) -> float:
        """The part of the batch that a sentence occupies."""
        bounds = self._bounds
        return max(
            1 / bounds.slots,
            sentence.source_length / bounds.tokens,
            sentence.rows_cost / bounds.rows,
        )
