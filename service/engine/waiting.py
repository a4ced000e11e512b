"""Waiting line of sentences: admission order by priority, request fairness and similar length.

Interactive sentences go before bulk sentences, but bulk gets every eighth place. Within one
priority, requests share the places by weighted fair queueing (``FairQueue``). The first sentence is
admitted with those of the next in line whose length is nearest, which keeps padding small. Each
round begins with the first sentence, so none is passed over for long.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from service.engine.types import Priority

BULK_SHARE = 8
"""One in this many admitted sentences is bulk, if any is waiting."""
LOOKAHEAD = 4
"""Sentences per free slot that are searched for similar lengths."""


class Identified(Protocol):
    @property
    def id(self) -> int: ...


T = TypeVar("T", bound=Identified)


@dataclass(frozen=True, slots=True)
class _Entry(Generic[T]):
    item: T
    request: int
    work: float
    turn: float
    number: int
    """Breaks ties between equal turns, and identifies stale heap entries of the same item."""


@dataclass(slots=True)
class _Share:
    waiting: int = 0
    """Waiting items of the request."""
    next_turn: float = 0.0


class FairQueue(Generic[T]):
    """Queue of items with ids: weighted fair queueing of requests by decoding work.

    Demers, Keshav and Shenker 1989. A virtual clock counts the work that each waiting request
    would have received if all requests were served in parallel. The turn of a sentence is the
    clock value at which its request, with a constant share, could begin it. A single sentence
    therefore waits for about one sentence of every other request. A lone request gets all
    capacity. Later arrivals get later turns, so every sentence is served. Sentences of one request
    keep their order. Each operation takes logarithmic time in the queue length.
    """

    def __init__(self) -> None:
        self._entries: dict[int, _Entry[T]] = {}
        self._heap: list[tuple[float, int, int]] = []
        """Turn, number and id. Entries of removed items stay until they reach the top."""
        self._shares: dict[int, _Share] = {}
        """By request, for requests with waiting items."""
        self._clock = 0.0
        self._numbers = itertools.count()
        self._numbers_before = itertools.count(-1, -1)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[T]:
        return (entry.item for entry in self._entries.values())

    def __contains__(self, identifier: int) -> bool:
        return identifier in self._entries

    def append(self, item: T, request: int, work: float) -> None:
        """Queue an item of ``request``; ``work`` is above 0, in any unit."""
        share = self._shares.setdefault(request, _Share())
        turn = max(self._clock, share.next_turn)
        share.next_turn = turn + work
        self._enter(_Entry(item, request, work, turn, next(self._numbers)), share)

    def prepend(self, item: T, request: int) -> None:
        """Put a served item back at the head of the queue, with no work."""
        share = self._shares.setdefault(request, _Share(next_turn=self._clock))
        self._enter(_Entry(item, request, 0.0, -math.inf, next(self._numbers_before)), share)

    def first(self, count: int) -> list[T]:
        """The next ``count`` items, or all if there are fewer."""
        found: list[tuple[float, int, int]] = []
        while self._heap and len(found) < count:
            place = heapq.heappop(self._heap)
            if self._is_current(place):
                found.append(place)
        for place in found:
            heapq.heappush(self._heap, place)
        return [self._entries[identifier].item for _, _, identifier in found]

    def serve(self, identifier: int) -> T:
        """Take out an item and advance the clock by its work; raises ``KeyError``."""
        self._clock += self._entries[identifier].work / len(self._shares)
        return self.remove(identifier)

    def remove(self, identifier: int) -> T:
        """Take out a cancelled item, without moving the clock; raises ``KeyError``."""
        entry = self._entries.pop(identifier)
        share = self._shares[entry.request]
        share.waiting -= 1
        if not share.waiting:
            del self._shares[entry.request]
        if len(self._heap) > 2 * len(self._entries) + 16:
            self._heap = [place for place in self._heap if self._is_current(place)]
            heapq.heapify(self._heap)
        return entry.item

    def _enter(self, entry: _Entry[T], share: _Share) -> None:
        share.waiting += 1
        self._entries[entry.item.id] = entry
        heapq.heappush(self._heap, (entry.turn, entry.number, entry.item.id))

    def _is_current(self, place: tuple[float, int, int]) -> bool:
        _, number, identifier = place
        entry = self._entries.get(identifier)
        return entry is not None and entry.number == number


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
