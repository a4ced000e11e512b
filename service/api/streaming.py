"""Streams an answer as server-sent events.

An error before the first event is an ordinary error response; a later error is an event. A client
that disconnects ends the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from fastapi import Response
from starlette.types import Receive, Scope, Send

from service.api.errors import EXPECTED
from service.api.responses import json_bytes
from service.threads.time_slices import TimeSlices

MEDIA_TYPE = "text/event-stream"

KEEP_ALIVE_SECONDS = 15.0
"""Seconds between comments; many proxies close a connection that is idle for a minute."""

KEEP_ALIVE = b": still translating\n\n"


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    data: Any
    """A JSON-serialisable value, or its JSON on one line as bytes."""

    def encode(self) -> bytes:
        data = self.data if isinstance(self.data, bytes) else json_bytes(self.data)
        return b"event: %s\ndata: %s\n\n" % (self.name.encode(), data)


class EventStream(Response):
    """Response that sends events as they come; created by ``EventStream.begin``."""

    media_type = MEDIA_TYPE

    def __init__(
        self,
        first: bytes,
        following: AsyncGenerator[bytes, None],
        event_of: Callable[[Exception], Event],
    ) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        # The base class has set it to the length of an empty body.
        del self.headers["content-length"]
        self._first = first
        self._following = following
        self._event_of = event_of

    @classmethod
    async def begin(
        cls,
        events: AsyncIterator[Event],
        event_of: Callable[[Exception], Event],
        keep_alive: float = KEEP_ALIVE_SECONDS,
    ) -> EventStream:
        """Wait up to ``keep_alive`` seconds for the first event, and answer with all of them.

        A comment is sent after every ``keep_alive`` seconds without an event. Raises what
        ``events`` raises until the first event or comment; ``event_of`` converts a later exception
        to an event.
        """
        pieces = _pieces(events, keep_alive)
        return cls(await anext(pieces), pieces, event_of)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_piece(piece: bytes, *, more: bool = True) -> None:
            await send({"type": "http.response.body", "body": piece, "more_body": more})

        async with aclosing(self._following):
            start = {"type": "http.response.start", "status": self.status_code}
            await send({**start, "headers": self.raw_headers})
            await send_piece(self._first)
            try:
                async for piece in self._following:
                    await send_piece(piece)
            # The status has been sent, so outer layers cannot report the error to the client.
            except Exception as error:
                await send_piece(self._event_of(error).encode())
                if not isinstance(error, EXPECTED):
                    raise
        await send_piece(b"", more=False)


async def _pieces(events: AsyncIterator[Event], keep_alive: float) -> AsyncGenerator[bytes, None]:
    """Encoded events, and a comment after every ``keep_alive`` seconds without one."""
    queue: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def read() -> None:
        async for event in events:
            queue.put_nowait(event.encode())

    # A task of its own, so that a timeout does not cancel the work behind ``events``.
    reading = asyncio.create_task(read())
    reading.add_done_callback(lambda _: queue.put_nowait(None))
    slices = TimeSlices()
    try:
        while True:
            try:
                async with asyncio.timeout(keep_alive):
                    piece = await queue.get()
            except TimeoutError:
                yield KEEP_ALIVE
                continue
            if piece is None:
                break
            yield piece
            await slices.pause()
        await reading
    finally:
        reading.cancel()
        await asyncio.wait([reading])
        if not reading.cancelled():
            # Retrieved so that asyncio does not warn, even if the client has disconnected.
            reading.exception()
