from __future__ import annotations

import math
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from service.engine.batch_capacity import BatchBounds, BatchCapacity
from service.engine.types import Priority
from service.engine.waiting_queue import BULK_SHARE, WaitingQueue


@dataclass(frozen=True)
class Waiting:
    id: int
    source_length: int = 1
    priority: Priority = "interactive"
    caller: str = ""
    rows_cost: float = 1.0


def queue_of(*waiting: Waiting) -> WaitingQueue[Waiting]:
    queue: WaitingQueue[Waiting] = WaitingQueue()
    for each in waiting:
        queue.append(each)
    return queue


def admit(queue: WaitingQueue[Waiting], slots: int, max_padded_tokens: int) -> list[Waiting]:
    """Admit into an empty batch of so many slots."""
    capacity = BatchCapacity(BatchBounds(slots, 1 << 20, math.inf))
    capacity.share_with(queue.callers)
    return queue.admit(capacity, max_padded_tokens)


def ids(admitted: list[Waiting]) -> list[int]:
    return [waiting.id for waiting in admitted]


def test_the_first_is_admitted_with_the_nearest_lengths_among_the_next() -> None:
    queue = queue_of(*(Waiting(i, length) for i, length in enumerate([5, 9, 5, 1, 6, 5])))
    assert ids(admit(queue, 3, 100)) == [0, 2, 5]
    assert ids(admit(queue, 3, 100)) == [1, 4, 3]


def test_each_round_admits_the_first_sentence_in_line() -> None:
    queue = queue_of(Waiting(0, 50), *(Waiting(i, 2) for i in range(1, 100)))
    rounds = [ids(admit(queue, 4, 1000)) for _ in range(3)]
    assert rounds[0][0] == 0
    assert rounds[1][0] == min(set(range(100)) - set(rounds[0]))


def test_a_single_sentence_is_admitted_soon_beside_a_long_request() -> None:
    queue: WaitingQueue[Waiting] = WaitingQueue()
    for i in range(1000):
        queue.append(Waiting(i, 5), request=1, work=5 * 8)
    for _ in range(100):
        admit(queue, 2, 1000)
    queue.append(Waiting(5000, 5), request=2, work=5 * 4)
    assert 5000 in ids(admit(queue, 2, 1000) + admit(queue, 2, 1000))


def test_interactive_goes_first_and_bulk_gets_every_eighth_place() -> None:
    bulk = [Waiting(1000 + i, priority="bulk") for i in range(50)]
    queue = queue_of(*bulk, *(Waiting(i) for i in range(50)))
    order = [waiting for _ in range(8) for waiting in admit(queue, 4, 1000)]
    assert [i for i, waiting in enumerate(order) if waiting.priority == "bulk"] == [
        i for i in range(len(order)) if i % BULK_SHARE == BULK_SHARE - 1
    ]


def test_interactive_fills_the_batch_while_bulk_has_its_share() -> None:
    bulk = [Waiting(1000 + i, priority="bulk", caller="a") for i in range(8)]
    interactive = [Waiting(i, caller="b") for i in range(8)]
    queue = queue_of(*bulk, *interactive)
    capacity = BatchCapacity(BatchBounds(8, 1 << 20, math.inf))
    capacity.share_with(queue.callers)
    for number in range(4):
        capacity.take(Waiting(2000 + number, priority="bulk", caller="a"))
    served = []
    for _ in range(3):
        admitted = queue.admit(capacity, 1000)
        served += ids(admitted)
        for each in admitted:
            capacity.release(each)
    assert sorted(served) == list(range(8))


def test_bulk_gets_every_place_without_interactive_sentences() -> None:
    queue = queue_of(*(Waiting(i, priority="bulk") for i in range(10)))
    assert len(admit(queue, 10, 1000)) == 10


def test_a_prepended_sentence_is_first_again() -> None:
    queue = queue_of(Waiting(0), Waiting(1))
    (first,) = admit(queue, 1, 10)
    queue.prepend(first)
    assert ids(admit(queue, 2, 10)) == [0, 1]


@given(
    st.lists(st.tuples(st.integers(1, 30), st.sampled_from(["interactive", "bulk"])), max_size=30),
    st.integers(1, 60),
    st.integers(1, 6),
)
def test_every_sentence_is_admitted_once_and_within_the_bound(
    waiting: list[tuple[int, Priority]], bound: int, slots: int
) -> None:
    queue = queue_of(*(Waiting(i, *each) for i, each in enumerate(waiting)))
    entered: list[int] = []
    while len(queue):
        admitted = admit(queue, slots, bound)
        assert 0 < len(admitted) <= slots
        padded = max(w.source_length for w in admitted) * len(admitted)
        assert len(admitted) == 1 or padded <= bound
        entered += ids(admitted)
    assert sorted(entered) == list(range(len(waiting)))
    assert queue.tokens == 0
