"""Graceful shutdown: new requests are refused while accepted requests finish.

``Drain`` tracks the requests in progress; the server begins it and waits for it. The middleware
``RefuseWhileDraining`` registers every request with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.errors import CUT_SHORT, REFUSALS, ShuttingDown, headers_of
from service.api.responses import Json, error_body_for

PROBES = frozenset({"/livez", "/readyz", "/health", "/metrics"})
"""Paths that orchestrators poll every few seconds, also during shutdown."""

_BODY_BYTES = 1 << 20
_BODY_SECONDS = 2.0
"""Limits of what is read of a refused body. Closing a connection with unread bytes would reset it,
and the client might never see the refusal. Longer or slower bodies accept that risk."""


class Drain:
    """Tracks the requests in progress. Used by one event loop only."""

    def __init__(self) -> None:
        self.begun = False
        """Whether new requests are refused."""
        self.cut = False
        """Whether the requests in progress were cancelled."""
        self._running: set[asyncio.Task[object]] = set()
        self._none_left = asyncio.Event()
        self._none_left.set()

    @property
    def running(self) -> int:
        """Requests accepted and not yet answered, without probes."""
        return len(self._running)

    def begin(self) -> None:
        """Refuse all further requests."""
        self.begun = True

    async def finished(self, seconds: float) -> bool:
        """Wait until every accepted request has been answered; ``False`` if that takes longer."""
        try:
            async with asyncio.timeout(seconds):
                await self._none_left.wait()
        except TimeoutError:
            return False
        return True

    def cut_short(self) -> int:
        """Cancel the requests in progress; returns their number."""
        self.cut = True
        for task in self._running:
            task.cancel()
        return len(self._running)

    @contextmanager
    def accepted(self) -> Iterator[None]:
        """Register the calling task as a request in progress."""
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        self._none_left.clear()
        try:
            yield
        finally:
            self._running.discard(task)
            if not self._running:
                self._none_left.set()


class RefuseWhileDraining:
    """Always serves probes, and serves other requests until the drain begins.

    A request that the drain cancels gets a 503. Every answer during the drain closes its
    connection, so that clients go elsewhere.
    """

    def __init__(self, app: ASGIApp, drain: Drain) -> None:
        self.app = app
        self.drain = drain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def send_last(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                if self.drain.begun:
                    MutableHeaders(scope=message)["connection"] = "close"
            await send(message)

        if scope["path"] in PROBES:
            await self.app(scope, receive, send_last)
            return
        if self.drain.begun:
            await _discard_body(scope, receive)
            await _refuse(scope, receive, send_last)
            return
        with self.drain.accepted():
            try:
                await self.app(scope, receive, send_last)
            except asyncio.CancelledError:
                if not self.drain.cut:
                    raise
                scope["state"]["facts"].refusal = CUT_SHORT
                # A response that has started cannot be replaced; the server aborts it.
                if not started:
                    await _refuse(scope, receive, send_last, cut=True)


async def _refuse(scope: Scope, receive: Receive, send: Send, *, cut: bool = False) -> None:
    error = ShuttingDown(cut=cut)
    if not cut:
        scope["state"]["facts"].refusal = REFUSALS[ShuttingDown]
    body = error_body_for(scope["path"], str(error))
    await Json(body, CUT_SHORT.status, headers=headers_of(error))(scope, receive, send)


async def _discard_body(scope: Scope, receive: Receive) -> None:
    if "expect" in Headers(scope=scope):
        return  # The client has sent no body yet.
    received, more = 0, True
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            while more and received < _BODY_BYTES:
                message = await receive()
                received += len(message.get("body", b""))
                more = message.get("more_body", False)
    except TimeoutError:
        return
