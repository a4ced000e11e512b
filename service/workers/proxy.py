"""ASGI app of a worker that passes requests on to the owner, as HTTP over its Unix socket.

Requests and answers stream. A hang-up closes the connection to the owner, which cancels the
request there. A request whose owner is gone is answered 503, and 504 if the owner has not begun to
answer some seconds after its own deadline. The patience with bodies is that of the owner, whose own
answer to a slow body would be read only after the body.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import ParamSpec, TypeVar

import httpx
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive, Scope, Send

from service.api.error_bodies import error_body_for
from service.api.errors import REFUSALS, BadRequest, BodyTooSlow
from service.api.metering import time_limit
from service.api.middleware import BODY_SECONDS, CancelOnHangUp, Cors, PatientBody
from service.api.responses import Json
from service.workers.owner_link import GONE

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

GRACE_SECONDS = 5.0
"""How much longer than its limit a request waits for the owner, whose own refusal says more."""
_TURN_SECONDS = 10.0
"""How long a request waits to be passed on while as many as possible are. Less than the patience
with bodies."""
BUSY = "too many requests are in progress; repeat the request in a moment"
SILENT = "the service did not answer in time; repeat the request in a moment"

_OF_A_CONNECTION = frozenset(
    {b"connection", b"expect", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
)
"""Headers that concern the connection to one end, which are not passed on (RFC 9110, 7.6.1)."""
_FORWARDED = (b"forwarded", b"x-forwarded-for", b"x-forwarded-proto")
"""Headers that the server of the worker has read already, if it trusts their sender."""


class Proxy:
    def __init__(
        self,
        path: Path,
        seconds: float,
        unlimited: Collection[str] = (),
        body_seconds: float = BODY_SECONDS,
        most: int | None = None,
    ) -> None:
        """``path`` is the Unix socket of the owner, ``seconds`` the time limit of requests.

        Requests for ``unlimited`` paths wait until the owner answers or is gone. At most ``most``
        are passed on at once; others wait for some seconds and are then refused.
        """
        self._seconds = seconds
        self._unlimited = frozenset(unlimited)
        self._body_seconds = body_seconds
        limits = httpx.Limits(max_connections=most, max_keepalive_connections=64)
        self._transport = httpx.AsyncHTTPTransport(uds=str(path), limits=limits, retries=1)
        self._watched = CancelOnHangUp(self._pass_on)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._watched(scope, receive, send)
        except ClientDisconnect:
            # The context of the answer has closed the connection to the owner.
            return

    async def close(self) -> None:
        await self._transport.aclose()

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = PatientBody(receive, self._body_seconds)
        seconds = self._seconds_of(scope)
        begun = False
        try:
            async with asyncio.timeout(None) as limit:
                request = Request(scope, _uncounted(limit, seconds, body.receive))
                forwarded = _forwarded(request)
                if isinstance(forwarded.stream, httpx.ByteStream):
                    # The end of the empty body, from which on a hang-up is noticed.
                    await request.receive()
                answer = await self._transport.handle_async_request(forwarded)
                send_on = _uncounted(limit, seconds, send)
                try:
                    begun = True
                    await send_on(_head(answer))
                    async for content in answer.aiter_raw():
                        piece = {"type": "http.response.body", "body": content, "more_body": True}
                        await send_on(piece)
                finally:
                    await answer.aclose()
            await send({"type": "http.response.body", "body": b""})
        # An answer that has begun cannot be replaced; the server aborts it.
        except BodyTooSlow as error:
            await _refuse(scope, receive, send, REFUSALS[BodyTooSlow].status, str(error))
        except TimeoutError:
            logger.warning("the owner did not answer a request in time")
            if not begun:
                await _refuse(scope, receive, send, 504, SILENT)
        except httpx.PoolTimeout:
            await _refuse(scope, receive, send, 503, BUSY, {"Retry-After": "1"})
        except httpx.TransportError:
            if not begun:
                await _refuse(scope, receive, send, 503, GONE, {"Retry-After": "1"})

    def _seconds_of(self, scope: Scope) -> float:
        """How long the owner may be silent after a part of the request, or of its answer."""
        if scope["path"] in self._unlimited:
            return math.inf
        # The owner refuses a wrong header.
        with suppress(BadRequest):
            return time_limit(Request(scope), self._seconds) + GRACE_SECONDS
        return self._seconds + GRACE_SECONDS


def _uncounted(
    limit: asyncio.Timeout, seconds: float, waiting: Callable[P, Awaitable[T]]
) -> Callable[P, Awaitable[T]]:
    """The function, which stops the clock of ``limit`` while it runs, and then starts it again."""

    async def call(*arguments: P.args, **named: P.kwargs) -> T:
        limit.reschedule(None)
        result = await waiting(*arguments, **named)
        if seconds < math.inf:
            limit.reschedule(asyncio.get_running_loop().time() + seconds)
        return result

    return call


async def _refuse(
    scope: Scope,
    receive: Receive,
    send: Send,
    status: int,
    message: str,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Answer with an error and close the connection."""
    body = error_body_for(scope["path"], status, message)
    answer = Json(body, status, headers={**headers, "Connection": "close"})
    await Cors(answer)(scope, receive, send)


def _forwarded(request: Request) -> httpx.Request:
    scope = request.scope
    headers = [
        (name, value)
        for name, value in scope["headers"]
        if name not in _OF_A_CONNECTION and name not in _FORWARDED
    ]
    host, _ = scope["client"] or ("", 0)
    headers += [
        (b"x-forwarded-for", host.encode("utf-8", "surrogateescape")),
        (b"x-forwarded-proto", scope["scheme"].encode()),
    ]
    target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    url = httpx.URL("http://owner")
    has_body = {b"content-length", b"transfer-encoding"} & {name for name, _ in scope["headers"]}
    return httpx.Request(
        scope["method"],
        url,
        headers=headers,
        content=_body(request) if has_body else None,
        extensions={"target": target, "timeout": {"pool": _TURN_SECONDS}},
    )


async def _body(request: Request) -> AsyncIterator[bytes]:
    async for content in request.stream():
        yield content


def _head(answer: httpx.Response) -> Message:
    closing = answer.headers.get("connection", "").lower() == "close"
    headers = [
        (name.lower(), value)
        for name, value in answer.headers.raw
        if name.lower() not in _OF_A_CONNECTION or (closing and name.lower() == b"connection")
    ]
    return {"type": "http.response.start", "status": answer.status_code, "headers": headers}
