"""The line of sentences that wait for a slot, and who of them enters next.

Interactive sentences go before bulk ones, but every eighth place is bulk's. Within each, requests
share the places, see ``service.engine.fairness``; those who enter with the first are taken from the
next in line for being about as long, so that little is padded. Nobody is passed by for long: each
round begins with the one who is first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from service.engine.fairness import FairQueue
from service.engine.types import Priority

BULK_SHARE = 8
"""One in so many who enter is bulk, if any waits."""
LOOKAHEAD = 4
"""How many times the free slots are looked at for sentences of like length."""


class Waiting(Protocol):
    """Who can stand in the line."""

    @property
    def id(self) -> int: ...
    @property
    def source_length(self) -> int: ...
    @property
    def priority(self) -> Priority: ...


W = TypeVar("W", bound=Waiting)


class Line(Generic[W]):
    def __init__(self) -> None:
        self._lines: dict[Priority, FairQueue[W]] = {
            "interactive": FairQueue(),
            "bulk": FairQueue(),
        }
        self._since_bulk = 0
        self.tokens = 0
        """Source tokens of all who wait."""

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def __iter__(self) -> Iterator[W]:
        for line in self._lines.values():
            yield from line

    def append(self, waiting: W, request: int = 0, work: float | None = None) -> None:
        """Somebody of a ``request`` joins, who will take so much ``work``; by default as much as
        there is source."""
        self._lines[waiting.priority].append(
            waiting, request, waiting.source_length if work is None else work
        )
        self.tokens += waiting.source_length

    def prepend(self, waiting: W, request: int = 0) -> None:
        """Put somebody before all others of the same priority."""
        self._lines[waiting.priority].prepend(waiting, request)
        self.tokens += waiting.source_length

    def remove(self, identifier: int) -> W | None:
        """Take somebody out; ``None`` if nobody of that name waits."""
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
        """Take up to ``slots`` out who, padded to the longest, stay within the bound.

        The first always enters, if it ``fits``; that is asked with how many have entered and how
        long the longest of them is.
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
        """Whose turn it is, and for how many places."""
        interactive, bulk = self._lines["interactive"], self._lines["bulk"]
        if not slots or not (interactive or bulk):
            return None
        if not (interactive and bulk):
            return interactive or bulk, slots
        before_bulk = max(0, BULK_SHARE - 1 - self._since_bulk)
        return (interactive, min(slots, before_bulk)) if before_bulk else (bulk, 1)


def _alike(line: FairQueue[W], places: int) -> list[W]:
    """The first in line and, of the next, those whose length is nearest to its own."""
    first, *others = line.first(1 + places * LOOKAHEAD)
    others.sort(key=lambda other: abs(other.source_length - first.source_length))
    return [first, *others][:places]
