"""Waiting line of sentences: admission order by priority, request fairness and similar length.

Interactive sentences go before bulk sentences, but bulk gets every eighth place. Within one
priority, requests share the places, see ``service.engine.fairness``. The first sentence is admitted
with those of the next in line whose length is nearest, which keeps padding small. Each round begins
with the first sentence, so none is passed over for long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from service.engine.fairness import FairQueue
from service.engine.types import Priority

BULK_SHARE = 8
"""One in this many admitted sentences is bulk, if any is waiting."""
LOOKAHEAD = 4
"""Sentences per free slot that are searched for similar lengths."""


class Waiting(Protocol):
    """A sentence that can stand in the line."""

    @property
    def id(self) -> int: ...
    @property
    def source_length(self) -> int: ...
    @property
    def priority(self) -> Priority: ...


W = TypeVar("W", bound=Waiting)


class Line(Generic[W]):
    """Waiting line with one fair queue per priority."""

    def __init__(self) -> None:
        self._lines: dict[Priority, FairQueue[W]] = {
            "interactive": FairQueue(),
            "bulk": FairQueue(),
        }
        self._since_bulk = 0
        self.tokens = 0
        """Source tokens of all waiting sentences."""

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def __iter__(self) -> Iterator[W]:
        for line in self._lines.values():
            yield from line

    def append(self, waiting: W, request: int = 0, work: float | None = None) -> None:
        """Queue a sentence of ``request``; ``work`` defaults to its source length."""
        self._lines[waiting.priority].append(
            waiting, request, waiting.source_length if work is None else work
        )
        self.tokens += waiting.source_length

    def prepend(self, waiting: W, request: int = 0) -> None:
        """Put a sentence at the head of its priority's queue."""
        self._lines[waiting.priority].prepend(waiting, request)
        self.tokens += waiting.source_length

    def remove(self, identifier: int) -> W | None:
        """Remove a sentence by id; ``None`` if it is not waiting."""
        for line in self._lines.values():
            if identifier in line:
                removed = line.remove(identifier)
                self.tokens -= removed.source_length
                return removed
        return None

    def admit(
        self,
        slots: int,
        max_padded_tokens: int,
        fits: Callable[[int, int], bool] = lambda count, longest: True,
    ) -> list[W]:
        """Take out up to ``slots`` sentences within ``max_padded_tokens`` after padding.

        The first ignores that bound. ``fits(count, longest)`` must be true for every sentence,
        with the number admitted including it and the longest source length.
        """
        admitted: list[W] = []
        longest = 0
        while turn := self._turn(slots - len(admitted)):
            line, places = turn
            for waiting in _alike(line, places):
                longest = max(longest, waiting.source_length)
                count = len(admitted) + 1
                if admitted and longest * count > max_padded_tokens:
                    return admitted
                if not fits(count, longest):
                    return admitted
                admitted.append(line.serve(waiting.id))
                self.tokens -= waiting.source_length
                self._since_bulk = 0 if waiting.priority == "bulk" else self._since_bulk + 1
        return admitted

    def _turn(self, slots: int) -> tuple[FairQueue[W], int] | None:
        """The queue whose turn it is, and its number of places."""
        interactive, bulk = self._lines["interactive"], self._lines["bulk"]
        if not slots or not (interactive or bulk):
            return None
        if not (interactive and bulk):
            return interactive or bulk, slots
        before_bulk = max(0, BULK_SHARE - 1 - self._since_bulk)
        return (interactive, min(slots, before_bulk)) if before_bulk else (bulk, 1)


def _alike(line: FairQueue[W], places: int) -> list[W]:
    """The first in line and, of the next, those whose length is nearest to its own."""
    first, *following = line.first(1 + places * LOOKAHEAD)
    following.sort(key=lambda item: abs(item.source_length - first.source_length))
    return [first, *following][:places]
