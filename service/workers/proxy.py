"""ASGI app of a worker that passes requests on to the owner, as HTTP over its Unix socket.

Requests and answers stream. A hang-up closes the connection to the owner, which cancels the
request there. A request whose owner is gone is answered 503. The patience with bodies is that of
the owner, whose own answer to a slow body would be read only after the body.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import MappingProxyType

import httpx
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive, Scope, Send

from service.api.error_bodies import error_body_for
from service.api.errors import REFUSALS, BodyTooSlow
from service.api.middleware import BODY_SECONDS, CancelOnHangUp, Cors, PatientBody
from service.api.responses import Json
from service.workers.owner_link import GONE

_OF_A_CONNECTION = frozenset(
    {b"connection", b"expect", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
)
"""Headers that concern the connection to one end, which are not passed on (RFC 9110, 7.6.1)."""
_FORWARDED = (b"forwarded", b"x-forwarded-for", b"x-forwarded-proto")
"""Headers that the server of the worker has read already, if it trusts their sender."""


class Proxy:
    def __init__(self, path: Path, body_seconds: float = BODY_SECONDS) -> None:
        """``path`` is the Unix socket of the owner."""
        self._body_seconds = body_seconds
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
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
        receive = PatientBody(receive, self._body_seconds).receive
        request = Request(scope, receive)
        begun = False
        forwarded = _forwarded(request)
        try:
            if isinstance(forwarded.stream, httpx.ByteStream):
                # The end of the empty body, from which on a hang-up is noticed.
                await receive()
            answer = await self._transport.handle_async_request(forwarded)
            try:
                begun = True
                await send(_head(answer))
                async for content in answer.aiter_raw():
                    await send({"type": "http.response.body", "body": content, "more_body": True})
            finally:
                await answer.aclose()
            await send({"type": "http.response.body", "body": b""})
        except BodyTooSlow as error:
            await _refuse(scope, receive, send, REFUSALS[BodyTooSlow].status, str(error))
        except httpx.TransportError:
            # An answer that has begun cannot be replaced; the server aborts it.
            if not begun:
                await _refuse(scope, receive, send, 503, GONE, {"Retry-After": "1"})


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
        extensions={"target": target},
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
