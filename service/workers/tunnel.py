"""ASGI app of a worker: passes every request on to the owner, and its answer back.

Requests and answers stream, both under flow control. A hang-up closes the connection to the
owner, which cancels the request there. A request whose owner is gone is answered 503.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from starlette.types import Receive, Scope, Send

from service.api.middleware import Cors
from service.api.responses import Json, error_body_for
from service.helpers.messages import Unreadable
from service.workers.frames import Frame, FrameProtocol, FrameQueue, Kind, chunks, frame
from service.workers.owner_link import GONE
from service.workers.owner_protocol import request_parts


class Tunnel:
    def __init__(self, path: Path) -> None:
        """``path`` is the Unix socket of the owner."""
        self._path = str(path)
        self._idle: list[_Link] = []
        """Connections without a request. Never more than there were requests at once."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            link = await self._open()
        except OSError:
            await _refuse(scope, receive, send)
            return
        sending = asyncio.create_task(_send_request(link, scope, receive))
        try:
            await _pass_answer(link, scope, receive, send)
        finally:
            sending.cancel()
            if link.sent and link.answered and not link.lost:
                self._idle.append(link)
            else:
                link.transport.abort()

    async def _open(self) -> _Link:
        while self._idle:
            link = self._idle.pop()
            if not link.lost:
                link.begin()
                return link
        loop = asyncio.get_running_loop()
        _, link = await loop.create_unix_connection(_Link, self._path)
        return link


class _Link(FrameProtocol):
    """Connection to the owner."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.begin()

    def begin(self) -> None:
        """Prepare for a request."""
        self.received = FrameQueue(self.transport)
        self.wanted = asyncio.Event()
        """Set once the owner asks for the body."""
        self.sent = self.answered = False
        """Whether the whole request was written, and whether the whole answer was read."""

    def frame_received(self, received: Frame) -> None:
        if received[0] is Kind.CONTINUE:
            self.wanted.set()
        elif received[0] is Kind.REQUEST:
            raise Unreadable("the owner sends no requests")
        else:
            self.received.put(received)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.received.end()


async def _send_request(link: _Link, scope: Scope, receive: Receive) -> None:
    """Write the request as it arrives. Closes the connection when the client hangs up."""
    head = frame(Kind.REQUEST, *request_parts(scope))

    def write_head() -> None:
        nonlocal head
        link.write(head)
        head = b""

    # The owner limits the time of a body. A body that is here already goes out with the head.
    soon = asyncio.get_running_loop().call_soon(write_head)
    try:
        if any(name == b"expect" for name, _ in scope["headers"]):
            await link.wanted.wait()
        while not link.sent:
            message = await receive()
            if message["type"] == "http.disconnect":
                break
            more = message.get("more_body", False)
            for content in chunks(message.get("body", b""), more=more):
                soon.cancel()
                link.write(head + content)
                head = b""
                await link.drained()
            link.sent = not more
        else:
            await receive()
    finally:
        soon.cancel()
    # A server also reports "disconnect" after the answer.
    if not link.answered:
        link.transport.abort()


async def _pass_answer(link: _Link, scope: Scope, receive: Receive, send: Send) -> None:
    begun = False
    while not link.answered:
        received = await link.received.take()
        if received is None:
            # An answer that has begun cannot be replaced; the server aborts it.
            if not begun:
                await _refuse(scope, receive, send)
            return
        kind, parts = received
        if kind is Kind.ANSWER:
            begun = True
            status, *headers = parts
            pairs = list(zip(headers[::2], headers[1::2], strict=True))
            await send({"type": "http.response.start", "status": int(status), "headers": pairs})
            continue
        link.answered = kind is Kind.LAST
        await send({"type": "http.response.body", "body": parts[0], "more_body": not link.answered})


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    body = error_body_for(scope["path"], GONE)
    headers = {"Retry-After": "1", "Connection": "close"}
    await Cors(Json(body, 503, headers=headers))(scope, receive, send)
