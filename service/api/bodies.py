"""Middleware that limits the size and the transfer time of request bodies."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.errors import REFUSALS, BodyTooLarge, BodyTooSlow, RequestError
from service.api.responses import Json, error_body_for

BODY_SECONDS = 20.0
BODY_BYTES_PER_SECOND = 500
"""A body may take ``BODY_SECONDS``, and one more second for every 500 bytes received.

An unfinished body holds a connection and memory, so slow senders could occupy all of them. The
values are those of Apache's mod_reqtimeout, lenient enough for a phone.
"""

NO_LARGER: Mapping[str, int] = MappingProxyType({})


class BodyLimit:
    """Refuses large bodies, by their announced length or as they arrive, and slow bodies.

    The server discards what remains of a refused body, which keeps the connection usable. The
    connection is closed where no body will come: after a timeout, and for a client that waits for
    ``100 Continue``.
    """

    def __init__(
        self,
        app: ASGIApp,
        max_bytes: int,
        seconds: float = BODY_SECONDS,
        larger: Mapping[str, int] = NO_LARGER,
    ) -> None:
        """``larger`` maps paths to limits that replace ``max_bytes``."""
        self.app = app
        self.max_bytes = max_bytes
        self.seconds = seconds
        self.larger = larger

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        announced = headers.get("content-length", "")
        most = self.larger.get(scope["path"], self.max_bytes)
        if announced.isdecimal() and int(announced) > most:
            await self._refuse(scope, receive, send, most, closing="expect" in headers)
            return
        started = asyncio.get_running_loop().time()
        received = 0
        complete = too_slow = False

        async def receive_limited() -> Message:
            nonlocal received, complete, too_slow
            if complete:
                return await receive()
            try:
                async with asyncio.timeout_at(
                    started + self.seconds + received / BODY_BYTES_PER_SECOND
                ):
                    message = await receive()
            except TimeoutError:
                too_slow = True
                raise BodyTooSlow from None
            complete = not message.get("more_body", False)
            received += len(message.get("body", b""))
            if received > most:
                raise BodyTooLarge(most)
            return message

        async def send_closing(message: Message) -> None:
            if message["type"] == "http.response.start" and too_slow:
                MutableHeaders(scope=message)["connection"] = "close"
            await send(message)

        await self.app(scope, receive_limited, send_closing)

    async def _refuse(
        self, scope: Scope, receive: Receive, send: Send, most: int, *, closing: bool
    ) -> None:
        error: RequestError = BodyTooLarge(most)
        refusal = REFUSALS[BodyTooLarge]
        scope["state"]["facts"].refusal = refusal
        headers = {"connection": "close"} if closing else {}
        body = error_body_for(scope["path"], str(error))
        await Json(body, refusal.status, headers=headers)(scope, receive, send)
