"""Streamed translations: event parsing, parts, retries, closing."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import (
    Client,
    DeadlinePassed,
    Overloaded,
    Part,
    ServerFault,
    UnexpectedAnswer,
    Unreachable,
)
from dragoman.streaming import Events
from tests.client.support import (
    TRANSLATED,
    Broken,
    Clock,
    Kind,
    Service,
    ask,
    events,
    ok,
    read_stream,
    refused,
    streamed,
)

PART = events(("part", {"text": 0, "translatedText": "A dog."}))
DONE = events(("done", TRANSLATED))
RESET = httpx.ReadError("reset")


def stream(client: Any) -> Any:
    return read_stream(client, "Ein Hund.", target="en")


@given(st.lists(st.text()), st.data())
def test_events_are_parsed_across_chunk_boundaries(texts: list[str], data: Any) -> None:
    sent = b": still translating\n\n" + events(*(("part", {"t": text}) for text in texts))
    if data.draw(st.booleans()):
        sent = sent.replace(b"\n", b"\r\n")
    cuts = sorted(data.draw(st.sets(st.integers(0, len(sent)))))
    reader, received = Events(), []
    for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
        received += [*reader.feed(sent[start:end])]
    whole = [*Events().feed(sent)]
    assert received == whole
    assert len(received) == len(texts)


def test_parts_arrive_in_order_followed_by_result(kind: Kind) -> None:
    more = events(("part", {"text": 1, "translatedText": " \u2028 Two."}))
    both = {name: [value, value] for name, value in TRANSLATED.items()}
    service = Service([streamed(b": still translating\n\n", PART + more, events(("done", both)))])
    parts, result = ask(
        kind, service, lambda client: read_stream(client, ["Ein Hund.", "Zwei."], target="en")
    )
    assert parts == [Part("A dog.", 0), Part(" \u2028 Two.", 1)]
    assert [each.text for each in result] == ["A dog.", "A dog."]
    assert service.bodies[0]["stream"] is True


@pytest.mark.parametrize(
    "failure",
    [
        refused(503),
        refused(429),
        httpx.ConnectError("refused"),
        streamed(b"", RESET),
        streamed(b": still translating\n\n", RESET),
        streamed(events(("error", {"error": "full", "status": 503}))),
        streamed(b": still translating\n\n"),
    ],
)
def test_failure_before_first_part_is_retried(
    kind: Kind, failure: httpx.Response | Broken | Exception
) -> None:
    clock = Clock()
    service = Service([failure, streamed(PART, DONE)])
    parts, result = ask(kind, service, stream, clock=clock)
    assert [part.text for part in parts] == ["A dog."]
    assert result.text == "A dog."
    assert len(clock.slept) == 1


@pytest.mark.parametrize(
    ("rest", "error"),
    [
        ((RESET,), Unreachable),
        ((), Unreachable),
        ((events(("error", {"error": "stopping", "status": 503})),), Overloaded),
        ((events(("error", {"error": "too late", "status": 504})),), DeadlinePassed),
        ((events(("error", {"error": "a bug", "status": 500})),), ServerFault),
        ((b"event: part\ndata: {}\n\n",), UnexpectedAnswer),
        ((b"event: done\ndata: nonsense\n\n",), UnexpectedAnswer),
        ((b"event: part\ndata: " + b"[" * 100_000 + b"\n\n",), UnexpectedAnswer),
        ((b"event: \xff\ndata: {}\n\n",), Unreachable),
    ],
)
def test_failure_after_first_part_is_raised_without_retry(
    kind: Kind, rest: tuple[Any, ...], error: type[Exception]
) -> None:
    clock = Clock()
    service = Service([streamed(PART, *rest)])
    with pytest.raises(error):
        ask(kind, service, stream, clock=clock)
    assert clock.slept == []
    assert len(service.requests) == 1


def test_response_that_is_no_stream_raises_unexpected_answer(kind: Kind) -> None:
    with pytest.raises(UnexpectedAnswer, match="does not stream"):
        ask(kind, Service([ok()]), stream)


def test_a_stream_that_only_keeps_the_connection_open_ends_with_the_time(kind: Kind) -> None:
    clock = Clock()

    class Waiting(Broken):
        def __iter__(self) -> Any:
            while True:
                clock.now += 1
                yield b": still translating\n\n"

    with pytest.raises(DeadlinePassed):
        ask(kind, Service([Waiting(())]), stream, clock=clock, timeout=5)
    assert clock.now <= 1006


def test_leaving_a_stream_closes_connection(kind: Kind) -> None:
    body = Broken((PART, PART, DONE))

    def leave(client: Any) -> Any:
        if isinstance(client, Client):
            with client.stream("Hund", target="en") as parts:
                assert not body.closed
                return next(parts)

        async def leave_later() -> Part:
            async with client.stream("Hund", target="en") as parts:
                part: Part = await anext(parts)
                assert not body.closed
                return part

        return leave_later()

    assert ask(kind, Service([body]), leave) == Part("A dog.", 0)
    assert body.closed


def test_result_before_end_of_stream_is_refused(kind: Kind) -> None:
    def hurry(client: Any) -> Any:
        return client.stream("Hund", target="en").result

    with pytest.raises(RuntimeError, match="read all its parts first"):
        ask(kind, Service([]), hurry)
