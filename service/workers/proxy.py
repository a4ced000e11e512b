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
import select
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

import httpcore
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive, Scope, Send

from service.api.error_bodies import error_body_for
from service.api.errors import REFUSALS, BadRequest, BodyTooSlow
from service.api.metering import time_limit
from service.api.middleware import BODY_SECONDS, CancelOnHangUp, Cors, PatientBody
from service.api.responses import Json
from service.workers.owner_link import GONE

logger = logging.getLogger(__name__)
# Its debug log has names of documents and ids of translations.
logging.getLogger("httpcore").setLevel(logging.INFO)

P = ParamSpec("P")
T = TypeVar("T")

GRACE_SECONDS = 5.0
"""How much longer than its limit a request waits for the owner, whose own refusal says more."""
_IDLE_SECONDS = 5.0
"""How long a connection to the owner is kept for the next request."""
_TURN_SECONDS = 10.0
"""How long a request waits to be passed on while as many as possible are. Less than the patience
with bodies."""
_QUEUE_SECONDS = 0.01
"""Pause between two attempts to connect to an owner whose queue of connections is full."""
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
        self._pool = httpcore.AsyncConnectionPool(
            max_connections=most,
            max_keepalive_connections=64,
            keepalive_expiry=_IDLE_SECONDS,
            retries=1,
            uds=str(path),
            network_backend=_UnixSockets(),
        )
        self._watched = CancelOnHangUp(self._pass_on)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._watched(scope, receive, send)
        except ClientDisconnect:
            # The context of the answer has closed the connection to the owner.
            return

    async def close(self) -> None:
        await self._pool.aclose()

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = PatientBody(receive, self._body_seconds)
        seconds = self._seconds_of(scope)
        begun = False
        try:
            async with asyncio.timeout(None) as limit:
                request = Request(scope, _uncounted(limit, seconds, body.receive))
                send_on = _uncounted(limit, seconds, send)
                if not _has_body(scope):
                    # The end of the empty body, from which on a hang-up is noticed.
                    await request.receive()
                async with self._pool.stream(
                    scope["method"],
                    _target(scope),
                    headers=_headers(scope),
                    content=_body(request) if _has_body(scope) else None,
                    extensions={"timeout": {"pool": _TURN_SECONDS, "connect": _TURN_SECONDS}},
                ) as answer:
                    begun = True
                    await send_on(_head(answer))
                    async for content in answer.aiter_stream():
                        piece = {"type": "http.response.body", "body": content, "more_body": True}
                        await send_on(piece)
            await send({"type": "http.response.body", "body": b""})
        # An answer that has begun cannot be replaced; the server aborts it.
        except BodyTooSlow as error:
            await _refuse(scope, receive, send, REFUSALS[BodyTooSlow].status, str(error))
        except TimeoutError:
            logger.warning("the owner did not answer a request in time")
            if not begun:
                await _refuse(scope, receive, send, 504, SILENT)
        except (httpcore.PoolTimeout, httpcore.ConnectTimeout):
            await _refuse(scope, receive, send, 503, BUSY, {"Retry-After": "1"})
        except (httpcore.NetworkError, httpcore.ProtocolError):
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


def _has_body(scope: Scope) -> bool:
    return any(name in {b"content-length", b"transfer-encoding"} for name, _ in scope["headers"])


def _target(scope: Scope) -> httpcore.URL:
    target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    return httpcore.URL(scheme=b"http", host=b"owner", target=target)


def _headers(scope: Scope) -> list[tuple[bytes, bytes]]:
    host, _ = scope["client"] or ("", 0)
    return [
        *(
            (name, value)
            for name, value in scope["headers"]
            if name not in _OF_A_CONNECTION and name not in _FORWARDED
        ),
        (b"x-forwarded-for", host.encode("utf-8", "surrogateescape")),
        (b"x-forwarded-proto", scope["scheme"].encode()),
    ]


async def _body(request: Request) -> AsyncIterator[bytes]:
    async for content in request.stream():
        yield content


def _head(answer: httpcore.Response) -> Message:
    headers = [(name.lower(), value) for name, value in answer.headers]
    closing = (b"connection", b"close") in headers
    return {
        "type": "http.response.start",
        "status": answer.status,
        "headers": [
            (name, value)
            for name, value in headers
            if name not in _OF_A_CONNECTION or (closing and name == b"connection")
        ],
    }


class _UnixSockets(httpcore.AsyncNetworkBackend):
    """Sockets that asyncio reads and writes.

    Those of anyio, which are httpcore's own, log an ``InvalidStateError`` if a read is cancelled
    in the moment at which its socket becomes readable. asyncio's streams would lose an answer
    after which the owner has closed the connection while the body was still being sent.
    """

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.setblocking(False)
            async with asyncio.timeout(timeout):
                # ``loop.sock_connect`` takes a full queue of the owner for a connection.
                while True:
                    with suppress(BlockingIOError):
                        connection.connect(path)
                        return _Stream(connection)
                    await asyncio.sleep(_QUEUE_SECONDS)
        except BaseException as error:
            connection.close()
            if isinstance(error, TimeoutError):
                raise httpcore.ConnectTimeout from error
            if isinstance(error, OSError):
                raise httpcore.ConnectError from error
            raise

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _Stream(httpcore.AsyncNetworkStream):
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            return await asyncio.get_running_loop().sock_recv(self._connection, max_bytes)
        except OSError as error:
            raise httpcore.ReadError from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        try:
            await asyncio.get_running_loop().sock_sendall(self._connection, buffer)
        except OSError as error:
            raise httpcore.WriteError from error

    async def aclose(self) -> None:
        self._connection.close()

    def get_extra_info(self, info: str) -> Any:
        if info != "is_readable":
            return None
        # An idle connection is readable once the owner has closed it. ``select`` would refuse
        # descriptors above 1,023.
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        return bool(poll.poll(0))
