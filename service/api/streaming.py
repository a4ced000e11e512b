"""Answers that are told piece by piece, as server-sent events. Knows no texts.

Until the first event there is no answer yet, so whatever goes wrong by then is an ordinary refusal;
afterwards it is an event like the others. A client that goes away ends the work.
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

MEDIA_TYPE = "text/event-stream"

KEEP_ALIVE_SECONDS = 15.0
"""Proxies give up a connection on which nothing is said, many of them after a minute."""

KEEP_ALIVE = b": still translating\n\n"


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    data: Any
    """What JSON can say."""

    def encode(self) -> bytes:
        return b"event: %s\ndata: %s\n\n" % (self.name.encode(), json_bytes(self.data))


class EventStream(Response):
    """Sends events as they come; begin it with ``EventStream.begin``."""

    media_type = MEDIA_TYPE

    def __init__(
        self,
        first: bytes,
        others: AsyncGenerator[bytes, None],
        event_of: Callable[[Exception], Event],
    ) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        # Nobody knows it yet; the empty body of the plain response has been measured.
        del self.headers["content-length"]
        self._first = first
        self._others = others
        self._event_of = event_of

    @classmethod
    async def begin(
        cls,
        events: AsyncIterator[Event],
        event_of: Callable[[Exception], Event],
        keep_alive: float = KEEP_ALIVE_SECONDS,
    ) -> EventStream:
        """Wait for the first of ``events``, though not for long, and answer with all of them.

        Whenever none has come for ``keep_alive`` seconds, a comment is sent. Raises what ``events``
        raises until then; what it raises later becomes the event that ``event_of`` makes of it.
        """
        pieces = _pieces(events, keep_alive)
        return cls(await anext(pieces), pieces, event_of)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def tell(piece: bytes, *, more: bool = True) -> None:
            await send({"type": "http.response.body", "body": piece, "more_body": more})

        async with aclosing(self._others):
            start = {"type": "http.response.start", "status": self.status_code}
            await send({**start, "headers": self.raw_headers})
            await tell(self._first)
            try:
                async for piece in self._others:
                    await tell(piece)
            # The status has been sent: nobody further out could tell the client any more.
            except Exception as error:
                await tell(self._event_of(error).encode())
                if not isinstance(error, EXPECTED):
                    raise
        await tell(b"", more=False)


async def _pieces(events: AsyncIterator[Event], keep_alive: float) -> AsyncGenerator[bytes, None]:
    """Each event, and a comment whenever none has come for so long; raises what ``events`` does."""
    queue: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def read() -> None:
        async for event in events:
            queue.put_nowait(event.encode())

    # Waiting in vain for the next event must not disturb the work that it comes from.
    reading = asyncio.create_task(read())
    reading.add_done_callback(lambda _: queue.put_nowait(None))
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
        await reading
    finally:
        reading.cancel()
        await asyncio.wait([reading])
        if not reading.cancelled():
            # Asyncio is told that somebody has heard of it, even if whoever it was for has gone.
            reading.exception()
