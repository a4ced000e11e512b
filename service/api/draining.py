"""Letting accepted requests finish while nobody new comes in.

``Drain`` knows who is being answered; whoever runs the server begins it and waits for it.
``RefuseWhileDraining`` is where requests pass it, around everything that works for them.
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
"""What those who run the service ask every few seconds, and go on asking while it stops."""

_BODY_BYTES = 1 << 20
_BODY_SECONDS = 2.0
"""What is read of a refused request. Closing on unread bytes would reset the connection, and the
client might never see why it was refused; who sends more or slower has to live with that."""


class Drain:
    """The requests being answered. Belongs to one event loop, which alone touches it."""

    def __init__(self) -> None:
        self.begun = False
        """Whether requests are refused."""
        self.cut = False
        """Whether those still being answered have been cancelled."""
        self._running: set[asyncio.Task[object]] = set()
        self._none_left = asyncio.Event()
        self._none_left.set()

    @property
    def running(self) -> int:
        """Requests accepted and not yet answered, probes not counted."""
        return len(self._running)

    def begin(self) -> None:
        """Refuse whoever comes from here on."""
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
        """Cancel whatever is left, and say how many that were."""
        self.cut = True
        for task in self._running:
            task.cancel()
        return len(self._running)

    @contextmanager
    def accepted(self) -> Iterator[None]:
        """While the calling task answers a request."""
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
    """Answers probes always, others until the drain begins, and those cut short by name.

    Every answer given while draining ends its connection, so that clients go elsewhere.
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
                # What has been begun can only be broken off, which the server does.
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
        return  # Who asks before sending has sent nothing.
    received, more = 0, True
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            while more and received < _BODY_BYTES:
                message = await receive()
                received += len(message.get("body", b""))
                more = message.get("more_body", False)
    except TimeoutError:
        return
