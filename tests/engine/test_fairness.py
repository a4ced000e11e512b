from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from service.engine.waiting_queue import FairQueue


@dataclass(frozen=True)
class Item:
    id: int
    request: int
    work: float = 1.0


def queue_of(*items: Item) -> FairQueue[Item]:
    queue: FairQueue[Item] = FairQueue()
    for item in items:
        queue.append(item, item.request, item.work)
    return queue


def serve(queue: FairQueue[Item]) -> Item:
    (item,) = queue.first(1)
    assert queue.serve(item.id) is item
    return item


def test_requests_alternate_and_a_lone_request_gets_every_turn() -> None:
    many = [Item(i, request=1) for i in range(100)]
    queue = queue_of(*many, *(Item(100 + i, request=2) for i in range(3)))
    order = [serve(queue).request for _ in range(103)]
    assert order[:6] == [1, 2, 1, 2, 1, 2]
    assert order[6:] == [1] * 97


def test_a_late_request_waits_for_at_most_one_item_of_every_other_request() -> None:
    queue = queue_of(*(Item(i, request=i % 5) for i in range(500)))
    for _ in range(123):
        serve(queue)
    queue.append(Item(1000, request=9), 9, 1.0)
    before = [serve(queue).id for _ in range(6)]
    assert 1000 in before


def test_items_with_more_work_get_fewer_turns() -> None:
    wide = [Item(i, request=1, work=8.0) for i in range(100)]
    narrow = [Item(100 + i, request=2, work=2.0) for i in range(100)]
    queue = queue_of(*wide, *narrow)
    served = Counter(serve(queue).request for _ in range(50))
    assert served == {1: 10, 2: 40}


def test_requests_of_one_item_are_served_in_order_of_arrival() -> None:
    queue: FairQueue[Item] = FairQueue()
    order = []
    for i in range(300):
        queue.append(Item(i, request=i, work=1.0 + i % 7), i, 1.0 + i % 7)
        if i % 3:
            order.append(serve(queue).id)
    assert order == list(range(200))


def test_a_stream_of_new_requests_does_not_starve_a_large_one() -> None:
    queue = queue_of(*(Item(i, request=1, work=30.0) for i in range(10)))
    left = set(range(10))
    number = 100
    while left:
        queue.append(Item(number, request=number), number, 1.0)
        left.discard(serve(queue).id)
        number += 1
    # With each served sentence of request 1, one more request is waiting and has a share.
    assert number - 100 <= sum(30 * (waiting + 2) for waiting in range(10)) + 10


works = st.sampled_from([1.0, 2.0, 5.0, 40.0])
events = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 4), works),
        st.tuples(st.sampled_from(["serve", "remove", "preempt"]), st.integers(0, 50), works),
    ),
    max_size=120,
)


@given(events)
def test_every_item_is_served_once_and_in_order_within_its_request(
    events: list[tuple[str, int, float]],
) -> None:
    queue: FairQueue[Item] = FairQueue()
    waiting: dict[int, Item] = {}
    served: list[Item] = []
    for number, (event, choice, work) in enumerate(events):
        if event == "append":
            waiting[number] = Item(number, choice, work)
            queue.append(waiting[number], choice, work)
        elif event == "serve" and waiting:
            served.append(serve(queue))
            del waiting[served[-1].id]
        elif event == "remove" and waiting:
            identifier = sorted(waiting)[choice % len(waiting)]
            assert queue.remove(identifier) is waiting.pop(identifier)
        elif event == "preempt" and served:
            item = served.pop()
            waiting[item.id] = item
            queue.prepend(item, item.request)
            assert queue.first(1) == [item]
        assert len(queue) == len(waiting)
        assert {item.id for item in queue} == set(waiting)
        assert all(identifier in queue for identifier in waiting)
    # The queue is work conserving: it serves an item as long as one is waiting.
    while waiting:
        served.append(serve(queue))
        del waiting[served[-1].id]
    assert not len(queue) and queue.first(1) == []
    for request in range(5):
        ids = [item.id for item in served if item.request == request]
        assert ids == sorted(ids)


@given(
    st.lists(st.lists(works, min_size=1, max_size=12), min_size=2, max_size=6),
)
def test_requests_differ_by_at_most_two_items_of_served_work(
    requests: list[list[float]],
) -> None:
    numbers = iter(range(1000))
    items = [
        Item(next(numbers), request, work)
        for request, works_of in enumerate(requests)
        for work in works_of
    ]
    queue = queue_of(*items)
    left = Counter(item.request for item in items)
    done: Counter[int] = Counter()
    largest = max(item.work for item in items)
    while all(left.values()):
        item = serve(queue)
        left[item.request] -= 1
        done[item.request] += int(item.work)
        amounts = [done[request] for request in range(len(requests))]
        assert max(amounts) - min(amounts) <= 2 * largest
