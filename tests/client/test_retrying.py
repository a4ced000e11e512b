"""Retry policy: temporary errors, ``Retry-After`` and timeouts."""

from __future__ import annotations

from itertools import repeat
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import (
    AccessDenied,
    DeadlinePassed,
    DragomanError,
    Overloaded,
    RateLimited,
    RequestRefused,
    Retries,
    ServerFault,
    Unreachable,
)
from dragoman.retrying import Attempts
from tests.client.support import Clock, Kind, Service, ask, ok, refused, translate

PASSING = st.sampled_from([Overloaded, RateLimited, Unreachable])
SECONDS = st.floats(0, 1e6, allow_nan=False)
RETRIES = st.builds(
    Retries,
    limit=st.integers(0, 40),
    base=SECONDS,
    longest=SECONDS,
    draw=st.floats(0, 1).map(lambda drawn: lambda: drawn),
)
ASKED = st.none() | SECONDS


@given(RETRIES, st.integers(0, 60), PASSING, ASKED, st.floats(-10, 1e6))
def test_pause_is_at_least_retry_after_and_shorter_than_time_left(
    retries: Retries, tried: int, error: type[DragomanError], retry_after: float | None, left: float
) -> None:
    pause = retries.pause(tried, error("no", retry_after=retry_after), left)
    if pause is None:
        assert tried >= retries.limit or left <= (retry_after or 0)
    else:
        assert (retry_after or 0) <= pause <= left
        assert pause - (retry_after or 0) <= retries.longest + 1e-6


@given(RETRIES, st.lists(st.tuples(PASSING, ASKED, st.floats(0, 50)), max_size=50), st.data())
def test_all_pauses_together_stay_within_the_timeout(
    retries: Retries, failures: list[tuple[type[DragomanError], float | None, float]], data: Any
) -> None:
    clock = Clock()
    timeout = data.draw(st.floats(0.1, 200))
    attempts = Attempts.maker(retries, timeout, clock)()
    for error, retry_after, took in failures:
        clock.now += took
        refusal = error("no", retry_after=retry_after)
        try:
            pause = attempts.pause(refusal)
        except DragomanError as raised:
            assert raised is refusal
            break
        assert pause >= (retry_after or 0)
        clock.sleep(pause)
        assert clock.now <= 1000 + timeout + 1e-6
    assert len(clock.slept) <= retries.limit


@given(RETRIES, st.sampled_from([RequestRefused, AccessDenied, ServerFault, DeadlinePassed]))
def test_policy_never_retries_permanent_errors(
    retries: Retries, error: type[DragomanError]
) -> None:
    assert retries.pause(0, error("no", retry_after=1), 1000) is None


def test_pauses_without_retry_after_are_drawn_from_a_doubling_range() -> None:
    longest = Retries(draw=lambda: 1.0)
    shortest = Retries(draw=lambda: 0.0)
    error = Unreachable("no")
    assert [longest.pause(tried, error, 1e9) for tried in range(5)] == [0.5, 1, 2, 4, 8]
    assert [shortest.pause(tried, error, 1e9) for tried in range(5)] == [0] * 5


@pytest.mark.parametrize(
    "failure",
    [
        refused(429),
        refused(502),
        refused(503),
        httpx.ConnectError("refused"),
        httpx.ConnectTimeout("silence"),
        httpx.ReadError("reset"),
        httpx.RemoteProtocolError("hung up"),
    ],
)
def test_temporary_failure_is_retried(kind: Kind, failure: httpx.Response | Exception) -> None:
    clock = Clock()
    service = Service([failure, failure, ok()])
    assert ask(kind, service, translate, clock=clock).text == "A dog."
    assert clock.slept == [0.5, 1.0]


def test_client_sleeps_for_retry_after(kind: Kind) -> None:
    clock = Clock()
    date = {"date": "Sat, 21 Nov 2026 10:00:00 GMT"}
    service = Service(
        [
            refused(503, retry_after="7"),
            refused(429, retry_after="Sat, 21 Nov 2026 10:00:11 GMT", **date),
            ok(),
        ]
    )
    ask(kind, service, translate, clock=clock, draw=lambda: 0.0)
    assert clock.slept == [7.0, 11.0]


def test_retry_after_beyond_timeout_raises_at_once(kind: Kind) -> None:
    clock = Clock()
    service = Service([refused(429, retry_after="61")])
    with pytest.raises(RateLimited) as caught:
        ask(kind, service, translate, clock=clock, timeout=60)
    assert caught.value.retry_after == 61
    assert clock.slept == []


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 410, 413, 456, 500, 504])
def test_permanent_error_is_not_retried_and_another_is_raised_after_all_retries(
    kind: Kind, status: int
) -> None:
    clock = Clock()
    for answer, attempts in ((status, 1), (503, 3)):
        service = Service(repeat(refused(answer, "full")))
        with pytest.raises(DragomanError, match="full"):
            ask(kind, service, translate, clock=clock, retries=2 if answer == 503 else Retries())
        assert len(service.requests) == attempts


def test_each_attempt_sends_the_remaining_timeout(kind: Kind) -> None:
    clock = Clock()
    service = Service([refused(503, retry_after="7.5"), ok()])
    ask(kind, service, translate, clock=clock, timeout=20, draw=lambda: 0.0)
    assert [each.headers["x-request-timeout"] for each in service.requests] == ["20.000", "12.500"]
    assert [each.extensions["timeout"]["read"] for each in service.requests] == [20, 12.5]
    assert [each.extensions["timeout"]["connect"] for each in service.requests] == [5, 5]


def test_slow_responses_use_up_the_timeout(kind: Kind) -> None:
    clock = Clock()

    def slow(request: httpx.Request) -> httpx.Response:
        clock.now += 40
        return refused(503, "full", retry_after="15")

    with pytest.raises(Overloaded, match="full"):
        ask(kind, slow, translate, clock=clock, timeout=50)
    assert clock.slept == []
