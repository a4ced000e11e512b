from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.types import Message

from service.api.errors import BadRequest
from service.api.streaming import KEEP_ALIVE, Event, EventStream

NEVER = 60.0


def as_event(error: Exception) -> Event:
    return Event("error", str(error))


async def counting(upto: int, error: Exception | None = None) -> AsyncIterator[Event]:
    for number in range(upto):
        yield Event("count", number)
        await asyncio.sleep(0)
    if error is not None:
        raise error


class Client:
    """Records the messages that an application sends."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def send(self, message: Message) -> None:
        self.messages.append(message)

    async def receive(self) -> Message:
        return await asyncio.Future[Message]()

    async def hear(self, stream: EventStream) -> None:
        await stream({"type": "http"}, self.receive, self.send)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages)

    @property
    def ended(self) -> bool:
        return bool(self.messages) and not self.messages[-1].get("more_body", True)


async def test_events_are_sent_at_once_and_in_order() -> None:
    client = Client()
    await client.hear(await EventStream.begin(counting(2), as_event, NEVER))
    assert client.body == b"event: count\ndata: 0\n\nevent: count\ndata: 1\n\n"
    assert [m.get("body") for m in client.messages[1:]] == [
        b"event: count\ndata: 0\n\n",
        b"event: count\ndata: 1\n\n",
        b"",
    ]
    assert client.ended
    headers = dict(client.messages[0]["headers"])
    assert headers[b"content-type"] == b"text/event-stream; charset=utf-8"
    assert headers[b"cache-control"] == b"no-store"
    assert b"content-length" not in headers


@pytest.mark.parametrize("data", ["a\nb\r\nc", "\u2028\x85", "\ud83d", {"text": 0}, ["ä"]])
async def test_event_data_is_encoded_on_one_line(data: Any) -> None:
    encoded = Event("x", data).encode()
    name, line, *rest = encoded.split(b"\n")
    assert (name, rest) == (b"event: x", [b"", b""])
    assert b"\r" not in encoded
    assert json.loads(line.removeprefix(b"data: ")) == data


async def test_error_before_the_first_event_is_raised() -> None:
    with pytest.raises(BadRequest):
        await EventStream.begin(counting(0, BadRequest("no")), as_event, NEVER)


async def test_expected_error_after_the_first_event_ends_the_stream() -> None:
    client = Client()
    await client.hear(await EventStream.begin(counting(1, BadRequest("no")), as_event, NEVER))
    assert client.body.endswith(b'event: error\ndata: "no"\n\n')
    assert client.ended


async def test_unexpected_error_is_sent_as_an_event_and_raised() -> None:
    client = Client()
    stream = await EventStream.begin(counting(1, RuntimeError("a bug")), as_event, NEVER)
    with pytest.raises(RuntimeError):
        await client.hear(stream)
    assert client.body.endswith(b'event: error\ndata: "a bug"\n\n')
    assert not client.ended


async def test_a_comment_is_sent_while_nothing_happens() -> None:
    commented = asyncio.Event()

    async def slow() -> AsyncIterator[Event]:
        yield Event("count", 0)
        await commented.wait()
        yield Event("count", 1)

    class Watching(Client):
        async def send(self, message: Message) -> None:
            await super().send(message)
            if self.body.endswith(b"data: 0\n\n" + KEEP_ALIVE):
                commented.set()

    client = Watching()
    await client.hear(await EventStream.begin(slow(), as_event, 0.001))
    events = client.body.replace(KEEP_ALIVE, b"")
    assert events == b"event: count\ndata: 0\n\nevent: count\ndata: 1\n\n"


async def test_response_starts_before_a_slow_first_event() -> None:
    go_on = asyncio.Event()

    async def slow() -> AsyncIterator[Event]:
        await go_on.wait()
        raise BadRequest("no")
        yield Event("never", None)

    client = Client()
    stream = await EventStream.begin(slow(), as_event, 0.001)
    go_on.set()
    await client.hear(stream)
    assert client.body.replace(KEEP_ALIVE, b"") == b'event: error\ndata: "no"\n\n'


@pytest.mark.parametrize("events_sent", [0, 1])
async def test_disconnect_cancels_the_work(events_sent: int) -> None:
    working, stopped = asyncio.Event(), asyncio.Event()

    async def endless() -> AsyncIterator[Event]:
        try:
            for number in range(events_sent):
                yield Event("count", number)
            working.set()
            await asyncio.Future[None]()
        finally:
            # Cleanup that takes another loop iteration must finish, too.
            await asyncio.sleep(0)
            stopped.set()

    async def hear() -> None:
        await Client().hear(await EventStream.begin(endless(), as_event, NEVER))

    hearing = asyncio.create_task(hear())
    await working.wait()
    hearing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hearing
    assert stopped.is_set()


async def test_send_failure_cancels_the_work() -> None:
    stopped = asyncio.Event()

    async def endless() -> AsyncIterator[Event]:
        try:
            while True:
                yield Event("count", 0)
                await asyncio.sleep(0)
        finally:
            stopped.set()

    async def broken(message: Message) -> None:
        raise OSError

    stream = await EventStream.begin(endless(), as_event, NEVER)
    with pytest.raises(OSError):
        await stream({"type": "http"}, Client().receive, broken)
    assert stopped.is_set()
