"""Free capacity of the batch: its bounds, and the share of each caller.

While several callers have sentences, each may occupy an equal share of the batch: of the slots, the
source tokens and the rows, whichever it has most of (Ghodsi et al. 2011, dominant resource
fairness). One sentence is always allowed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
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


class BatchCapacity:
    """Free part of the bounds, after the sentences of the batch. Changes with ``take``."""

    def __init__(self, bounds: BatchBounds) -> None:
        self._bounds = bounds
        self._inside = 0
        self._lengths: Counter[int] = Counter()
        """Number of sentences by source length."""
        self._rows = 0.0
        self._callers: Counter[str] = Counter()
        """Number of sentences by caller."""
        self._occupied: dict[str, float] = {}
        """Part of the batch by caller."""
        self._share = math.inf

    def share_with(self, waiting: Collection[str]) -> None:
        """Share the batch equally between the callers in it and those in ``waiting``."""
        callers = len(self._callers.keys() | set(waiting))
        self._share = 1 / callers if callers > 1 else math.inf

    @property
    def slots(self) -> int:
        """Number of free slots."""
        return self._bounds.slots - self._inside

    def fits(self, sentence: Occupant) -> bool:
        """Whether a sentence fits within the bounds."""
        count = self._inside + 1
        padded = count * max(max(self._lengths, default=0), sentence.source_length)
        rows = self._rows + sentence.rows_cost
        within = padded <= self._bounds.tokens and rows <= self._bounds.rows
        return count <= self._bounds.slots and (within or count == 1)

    def serves(self, caller: str) -> bool:
        """Whether a caller has a sentence in the batch."""
        return caller in self._callers

    def is_closed_to(self, caller: str) -> bool:
        """Whether a caller has its share already."""
        return self._occupied.get(caller, 0.0) >= self._share

    def can_spare(self, sentence: Occupant) -> bool:
        """Whether the caller of a sentence in the batch has more than its share without it."""
        return self._occupied[sentence.caller] - self._part(sentence) >= self._share

    def take(self, sentence: Occupant) -> None:
        caller = sentence.caller
        self._inside += 1
        self._lengths[sentence.source_length] += 1
        self._rows += sentence.rows_cost
        self._callers[caller] += 1
        self._occupied[caller] = self._occupied.get(caller, 0.0) + self._part(sentence)

    def release(self, sentence: Occupant) -> None:
        """Undo ``take``."""
        caller, length = sentence.caller, sentence.source_length
        self._inside -= 1
        self._lengths[length] -= 1
        if not self._lengths[length]:
            del self._lengths[length]
        self._rows -= sentence.rows_cost
        self._callers[caller] -= 1
        self._occupied[caller] -= self._part(sentence)
        if not self._callers[caller]:
            # Sums of fractions are inexact: a caller without sentences occupies nothing.
            del self._callers[caller], self._occupied[caller]

    def _part(self, sentence: Occupant) -> float:
        """The part of the batch that a sentence occupies."""
        bounds = self._bounds
        return max(
            1 / bounds.slots,
            sentence.source_length / bounds.tokens,
            sentence.rows_cost / bounds.rows,
        )
