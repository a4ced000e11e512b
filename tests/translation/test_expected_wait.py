from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.engine.types import Priority
from service.translation.admission import Admission
from service.translation.errors import Overloaded
from service.translation.expected_wait import BUSY, ExpectedWait, Note, _Sizes


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Served:
    """Requests that a server of a constant rate finishes one by one."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.expected = ExpectedWait({"interactive": 2.0, "bulk": 30.0}, self.clock)
        self.waiting: list[tuple[int, float, Note, ExitStack]] = []
        """Tokens, arrivals, and what notes and ends a request."""

    def arrive(self, tokens: int, priority: Priority = "interactive", share: float = 1.0) -> bool:
        if self.expected.excess(tokens, priority, share) > 0:
            return False
        held = ExitStack()
        note = held.enter_context(self.expected.counted(tokens, priority))
        self.waiting.append((tokens, self.clock.now, note, held))
        return True

    def serve(self, rate: float) -> float:
        """Finish the oldest; returns the seconds since it arrived."""
        tokens, begun, note, held = self.waiting.pop(0)
        self.clock.now += tokens / rate
        note(tokens)
        held.close()
        return self.clock.now - begun


@given(sizes=st.lists(st.integers(1, 5_000), max_size=30), tokens=st.integers(1, 5_000))
def test_work_ahead_counts_of_each_request_as_much_as_this_one_has(
    sizes: Sequence[int], tokens: int
) -> None:
    found = _Sizes()
    for size in sizes:
        found.add(size)
    exact = sum(min(size, tokens) for size in sizes)
    # Requests of about the same size are counted together.
    assert exact <= found.up_to(tokens) <= 2 * exact
    for size in sizes:
        found.add(size, -1)
    assert (found.up_to(tokens), found.tokens, found.usual) == (0, 0, 0)


@pytest.mark.parametrize("rate", [500.0, 3_000.0, 20_000.0])
@pytest.mark.parametrize("load", [2, 10])
def test_the_wait_is_bounded_and_the_server_busy_at_any_rate_and_overload(
    rate: float, load: int
) -> None:
    served = Served()
    waits = []
    for _ in range(int(45 * rate / 20)):
        for _ in range(load):
            served.arrive(20)
        waits.append(served.serve(rate))
        # A server with nothing to do would have been refused work.
        assert served.waiting
    settled = waits[-len(waits) // 3 :]
    bound = max(2.0, BUSY / rate)
    assert max(settled) <= 1.3 * bound
    assert min(settled) >= 0.5 * bound


def test_little_work_is_admitted_however_slow_the_server_is() -> None:
    served = Served()
    for _ in range(30):
        for _ in range(BUSY // 20):
            served.arrive(20)
        while served.waiting:
            served.serve(10.0)
    assert all(served.arrive(20) for _ in range(BUSY // 20))


def test_a_sentence_waits_for_a_sentence_of_a_document() -> None:
    served = Served()
    assert served.arrive(60_000)
    assert served.arrive(20)
    assert served.arrive(60_000)


def test_bulk_waits_longer_and_does_not_hold_up_others() -> None:
    served = Served()
    while served.arrive(100, "bulk"):
        pass
    assert 25 <= served.expected._in_flight / served.expected.rate <= 35
    assert served.arrive(100)


def test_work_counts_when_it_is_done_not_at_the_end_of_its_request() -> None:
    served = Served()
    with served.expected.counted(50_000, "interactive") as note:
        for _ in range(300):
            served.clock.now += 0.1
            note(150)
        assert served.expected.rate == pytest.approx(1_500, rel=0.02)
    assert served.expected.rate == pytest.approx(1_500, rel=0.02)
    # Time in which nothing is finished counts, too.
    with served.expected.counted(50_000, "interactive"):
        served.clock.now += 10
    assert served.expected.rate < 700


def test_time_of_requests_whose_results_are_known_does_not_count() -> None:
    served = Served()
    before = served.expected.rate
    for _ in range(60):
        with served.expected.counted(1_000, "interactive") as note:
            note(1_000, decoded=False)
            # The answer is written, or sent to a slow client.
            served.clock.now += 1
    assert served.expected.rate == before


@pytest.mark.parametrize("tokens", [20, 240])
def test_a_rate_that_is_measured_too_low_recovers(tokens: int) -> None:
    served = Served()
    with served.expected.counted(300, "interactive") as note:
        for _ in range(600):
            served.clock.now += 0.1
            note(0)
    assert served.expected.rate < 100
    while served.clock.now < 120:
        while served.arrive(tokens) and len(served.waiting) < 32:
            pass
        while served.waiting:
            served.serve(20_000)
    assert served.expected.rate > 2_000
    assert all(served.arrive(tokens) for _ in range(32))


def test_admission_refuses_a_long_wait_with_the_time_to_wait() -> None:
    clock = Clock()
    admission = Admission(10**9, ExpectedWait({"interactive": 2.0, "bulk": 30.0}, clock))
    admission.refuse_if_slow("", "interactive")
    with ExitStack() as held:
        held.enter_context(admission.admitted(100_000))
        with pytest.raises(Overloaded) as refused:
            for _ in range(1_000):
                held.enter_context(admission.admitted(100, "a"))
        assert admission.in_flight < 120_000
        assert refused.value.retry_after >= 1
        for characters in (0, 400):
            with pytest.raises(Overloaded):
                admission.refuse_if_slow("a", "interactive", characters)
            admission.refuse_if_slow("b", "interactive", characters)
        with admission.admitted(100, "b"), admission.admitted(100, "a", "bulk"):
            pass
