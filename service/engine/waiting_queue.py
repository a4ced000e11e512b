"""Waiting queue of sentences: order of admission by priority, caller, request and similar length.

Interactive sentences go before bulk sentences, but bulk gets every eighth place. Within one
priority, callers share the places by weighted fair queueing (``CallerQueue``), and so do the
requests of each caller (``FairQueue``). The first sentence is admitted with those of the next
sentences whose length is nearest, which keeps padding small. Each round begins with the first
sentence, so none is passed over for long. Callers that have their share of the batch are passed
over (``service.engine.batch_capacity``).
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from service.engine.batch_capacity import BatchCapacity, Occupant
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
        """Shares of the requests with waiting items."""
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

    def work(self, identifier: int) -> float:
        """Decoding work of a waiting item, 0 if it has been served before; raises ``KeyError``."""
        return self._entries[identifier].work

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


class Waiting(Occupant, Protocol):
    """A sentence that can wait in the queue."""

    @property
    def id(self) -> int: ...
    @property
    def priority(self) -> Priority: ...


W = TypeVar("W", bound=Waiting)


@dataclass(slots=True)
class _Caller(Generic[W]):
    queue: FairQueue[W] = field(default_factory=FairQueue)
    turn: float = 0.0


class CallerQueue(Generic[W]):
    """Start-time fair queueing of callers (Goyal, Vin and Cheng 1996), each with its requests.

    A caller's turn advances by the work of each of its served sentences. The caller with the
    earliest turn is next. A caller that begins to wait gets the turn that was served last.
    """

    def __init__(self) -> None:
        self._callers: dict[str, _Caller[W]] = {}
        """Callers with waiting sentences."""
        self._caller_of: dict[int, str] = {}
        self._served = 0.0

    def __len__(self) -> int:
        return len(self._caller_of)

    def __iter__(self) -> Iterator[W]:
        for caller in self._callers.values():
            yield from caller.queue

    def __contains__(self, identifier: int) -> bool:
        return identifier in self._caller_of

    @property
    def callers(self) -> Collection[str]:
        """Callers with waiting sentences."""
        return self._callers.keys()

    def append(self, item: W, request: int, work: float) -> None:
        self._of(item).queue.append(item, request, work)

    def prepend(self, item: W, request: int) -> None:
        """Put a served item back at the head of its caller's queue, with no work."""
        self._of(item).queue.prepend(item, request)

    def first(self, count: int, passed_over: Callable[[str], bool] = lambda _: False) -> list[W]:
        """The next ``count`` items of callers that are not passed over, or all of them."""
        names = [name for name in self._callers if not passed_over(name)]
        turns = [(self._callers[name].turn, number, name) for number, name in enumerate(names)]
        heapq.heapify(turns)
        upcoming: dict[str, Iterator[W]] = {}
        # Later places of the callers with the shortest sentences may be missed: they are only
        # considered for their length.
        most = math.ceil(count / max(1, len(names))) + LOOKAHEAD
        found: list[W] = []
        while turns and len(found) < count:
            turn, number, name = turns[0]
            queue = self._callers[name].queue
            if name not in upcoming:
                upcoming[name] = iter(queue.first(most))
            item = next(upcoming[name], None)
            if item is None:
                heapq.heappop(turns)
                continue
            found.append(item)
            heapq.heapreplace(turns, (turn + queue.work(item.id), number, name))
        return found

    def serve(self, identifier: int) -> W:
        """Take out an item and advance the turn of its caller; raises ``KeyError``."""
        name = self._caller_of.pop(identifier)
        caller = self._callers[name]
        self._served = max(self._served, caller.turn)
        caller.turn += caller.queue.work(identifier)
        item = caller.queue.serve(identifier)
        self._forget_if_empty(name)
        return item

    def remove(self, identifier: int) -> W:
        """Take out a cancelled item, without moving a turn; raises ``KeyError``."""
        name = self._caller_of.pop(identifier)
        item = self._callers[name].queue.remove(identifier)
        self._forget_if_empty(name)
        return item

    def _of(self, item: W) -> _Caller[W]:
        self._caller_of[item.id] = item.caller
        return self._callers.setdefault(item.caller, _Caller(turn=self._served))

    def _forget_if_empty(self, name: str) -> None:
        if not len(self._callers[name].queue):
            del self._callers[name]


class WaitingQueue(Generic[W]):
    """Waiting queue with one queue of callers per priority."""

    def __init__(self) -> None:
        self._queues: dict[Priority, CallerQueue[W]] = {
            "interactive": CallerQueue(),
            "bulk": CallerQueue(),
        }
        self._since_bulk = 0
        self.tokens = 0
        """Source tokens of all waiting sentences."""

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def __iter__(self) -> Iterator[W]:
        for queue in self._queues.values():
            yield from queue

    @property
    def callers(self) -> set[str]:
        """Callers with waiting sentences."""
        return {name for queue in self._queues.values() for name in queue.callers}

    def append(self, waiting: W, request: int = 0, work: float | None = None) -> None:
        """Queue a sentence of ``request``; ``work`` defaults to its source length."""
        self._queues[waiting.priority].append(
            waiting, request, waiting.source_length if work is None else work
        )
        self.tokens += waiting.source_length

    def prepend(self, waiting: W, request: int = 0) -> None:
        """Put a sentence at the head of its caller's queue."""
        self._queues[waiting.priority].prepend(waiting, request)
        self.tokens += waiting.source_length

    def remove(self, identifier: int) -> W | None:
        """Remove a sentence by id; ``None`` if it is not waiting."""
        for queue in self._queues.values():
            if identifier in queue:
                removed = queue.remove(identifier)
                self.tokens -= removed.source_length
                return removed
        return None

    def first_interactive(self, passed_over: Callable[[str], bool]) -> W | None:
        """The next interactive sentence of the callers that are not passed over."""
        return next(iter(self._queues["interactive"].first(1, passed_over)), None)

    def admit(self, capacity: BatchCapacity, max_padded_tokens: int) -> list[W]:
        """Take out the sentences that fit into ``capacity``, which takes them.

        Those within ``max_padded_tokens`` after padding; the first ignores that bound.
        """
        admitted: list[W] = []
        longest = 0
        while turn := self._turn(capacity):
            for waiting in turn:
                if capacity.is_closed_to(waiting.caller):
                    continue
                longest = max(longest, waiting.source_length)
                if admitted and longest * (len(admitted) + 1) > max_padded_tokens:
                    return admitted
                if not capacity.fits(waiting):
                    return admitted
                capacity.take(waiting)
                admitted.append(self._queues[waiting.priority].serve(waiting.id))
                self.tokens -= waiting.source_length
                self._since_bulk = 0 if waiting.priority == "bulk" else self._since_bulk + 1
        return admitted

    def _turn(self, capacity: BatchCapacity) -> list[W]:
        """The sentences whose turn it is, of the callers to which ``capacity`` is open."""
        if not capacity.slots:
            return []
        interactive, bulk = self._queues["interactive"], self._queues["bulk"]
        before_bulk = max(0, BULK_SHARE - 1 - self._since_bulk) if len(bulk) else capacity.slots
        places = [(interactive, min(capacity.slots, before_bulk)), (bulk, capacity.slots)]
        if len(interactive):
            places[1] = (bulk, 1)
        if not before_bulk:
            # Interactive sentences fill what no caller of bulk may take.
            places = [places[1], (interactive, capacity.slots)]
        return next(filter(None, (_alike(queue, count, capacity) for queue, count in places)), [])


def _alike(queue: CallerQueue[W], places: int, capacity: BatchCapacity) -> list[W]:
    """The first in the queue and, of the next, those whose length is nearest to its own."""
    upcoming = queue.first(1 + places * LOOKAHEAD, capacity.is_closed_to)
    if upcoming:
        length = upcoming[0].source_length
        upcoming[1:] = sorted(upcoming[1:], key=lambda item: abs(item.source_length - length))
    return upcoming[:places]
