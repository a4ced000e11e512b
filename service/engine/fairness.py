"""Fair queue of sentences between requests: weighted fair queueing by decoding work.

Demers, Keshav and Shenker 1989. A virtual clock counts the work that each waiting request would
have received if all requests were served in parallel. The turn of a sentence is the clock value
at which its request, with a constant share, could begin it. A single sentence therefore waits for
about one sentence of every other request. A lone request gets all capacity. Later arrivals get
later turns, so every sentence is served. Sentences of one request keep their order.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


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
    """Queue of items with ids. Each operation takes logarithmic time in the queue length."""

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
