from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from tests.support.waiting import wait_until
from training.data.batching import Cursor
from training.data.portions import Amount, Portion
from training.data.prefetch import Prefetcher

SECONDS = 60.0
"""Timeout, longer than anything here takes."""


def portion(number: int) -> Portion:
    return Portion((), Amount(number), Cursor(0, number), Cursor(0, number + 1))


class Numbered:
    """A source of numbered portions; calls ``before`` with each number."""

    def __init__(self, before: Callable[[int], None] = lambda number: None) -> None:
        self._before = before
        self.fetched = 0

    def next(self) -> Portion:
        self._before(self.fetched)
        self.fetched += 1
        return portion(self.fetched - 1)


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("prefetch")]


@pytest.mark.parametrize("depth", [1, 2, 7])
def test_portions_arrive_in_the_order_of_the_source(depth: int) -> None:
    with Prefetcher(Numbered(), depth) as portions:
        assert [portions.next() for _ in range(50)] == [portion(i) for i in range(50)]
    assert not threads()


def test_prefetch_stops_at_depth() -> None:
    source = Numbered()
    with Prefetcher(source, 3) as portions:
        wait_until(lambda: source.fetched == 3)
        portions.next()
        wait_until(lambda: source.fetched == 4)
        time.sleep(0.02)
        assert source.fetched == 4
    with pytest.raises(ValueError, match="least"):
        Prefetcher(source, 0)


def test_waiting_for_a_slow_source_is_measured() -> None:
    with Prefetcher(Numbered(lambda number: time.sleep(0.01)), 1) as portions:
        for _ in range(4):
            portions.next()
        assert portions.waited > 0.0


def test_source_error_is_raised_in_place_of_its_portion() -> None:
    def fail(number: int) -> None:
        if number == 3:
            raise ValueError("the third is broken")

    with Prefetcher(Numbered(fail), 5) as portions:
        assert [portions.next() for _ in range(3)] == [portion(i) for i in range(3)]
        for _ in range(2):
            with pytest.raises(ValueError, match="the third is broken"):
                portions.next()
    assert not threads()


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
def test_leaving_the_context_waits_for_the_current_fetch_only(kind: type[BaseException]) -> None:
    fetching, go_on = threading.Event(), threading.Event()

    def block(number: int) -> None:
        if number == 1:
            fetching.set()
            go_on.wait(SECONDS)

    source = Numbered(block)
    with pytest.raises(kind), Prefetcher(source, 1) as portions:
        portions.next()
        assert fetching.wait(SECONDS)
        threading.Timer(0.01, go_on.set).start()
        raise kind
    assert source.fetched == 2
    assert not threads()
