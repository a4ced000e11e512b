from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.state.errors import RateLimited
from service.state.rates import RateLimits
from tests.state.clocks import Clock


def test_caller_over_limit_is_refused_with_retry_after() -> None:
    clock = Clock()
    limits = RateLimits(clock)
    limits.hit("ann", 2)
    clock.seconds += 10
    limits.hit("ann", 2)
    clock.seconds += 10
    with pytest.raises(RateLimited) as refusal:
        limits.hit("ann", 2)
    assert refusal.value.retry_after == 40
    assert str(refusal.value) == ("Slowdown: 2 requests a minute at most; try again in 40 seconds")
    limits.hit("bob", 2)
    clock.seconds += 40
    limits.hit("ann", 2)


def test_zero_is_unlimited_and_tracks_no_caller() -> None:
    limits = RateLimits(Clock())
    for _ in range(1000):
        limits.hit("ann", 0)
    assert len(limits) == 0


@given(
    st.integers(1, 5),
    # Pauses in 1/64 s, which floats add exactly.
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 40 * 64)), max_size=60),
)
def test_every_minute_is_within_limit_and_retry_after_suffices(
    per_minute: int, arrivals: list[tuple[str, int]]
) -> None:
    clock = Clock()
    limits = RateLimits(clock)
    admitted: dict[str, list[float]] = {"a": [], "b": []}
    for caller, pause in arrivals:
        clock.seconds += pause / 64
        recent = [time for time in admitted[caller] if time > clock.seconds - 60]
        try:
            limits.hit(caller, per_minute)
        except RateLimited as refusal:
            assert len(recent) == per_minute
            clock.seconds += refusal.retry_after
            limits.hit(caller, per_minute)
        else:
            assert len(recent) < per_minute
        admitted[caller].append(clock.seconds)


def test_lowered_limit_applies_at_once() -> None:
    clock = Clock()
    limits = RateLimits(clock)
    for _ in range(5):
        limits.hit("ann", 5)
        clock.seconds += 1
    with pytest.raises(RateLimited) as refusal:
        limits.hit("ann", 2)
    clock.seconds += refusal.value.retry_after
    limits.hit("ann", 2)


def test_least_recent_and_idle_callers_are_evicted() -> None:
    clock = Clock()
    limits = RateLimits(clock, most_callers=10)
    limits.hit("busy", 1000)
    for number in range(500):
        limits.hit(f"passing {number}", 1)
        limits.hit("busy", 1000)
        assert len(limits) <= 10
    with pytest.raises(RateLimited):
        limits.hit("busy", 501)
    clock.seconds += 60
    limits.hit("ann", 1)
    assert len(limits) == 1


def test_limit_holds_when_only_one_caller_is_tracked() -> None:
    limits = RateLimits(Clock(), most_callers=1)
    limits.hit("ann", 1)
    with pytest.raises(RateLimited):
        limits.hit("ann", 1)


def test_memory_of_many_callers_is_bounded() -> None:
    limits = RateLimits(clock=lambda: 0.0, most_callers=500)

    def hit(callers: range) -> None:
        for number in callers:
            limits.hit(f"address {number:0>64}", per_minute=10)

    hit(range(1_000))
    tracemalloc.start()
    try:
        hit(range(1_000, 2_000))
        once, _ = tracemalloc.get_traced_memory()
        hit(range(2_000, 10_000))
        often, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(limits) == 500
    assert often < 1.1 * once
