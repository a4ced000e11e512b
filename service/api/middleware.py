"""What is done for every request, around all routes: plain ASGI, nothing of translation.

From the outside in: ``RequestLog`` names the request, times it, counts it, logs it and answers
for bugs; ``BodyLimit`` refuses what is too large before it is read; ``CancelOnHangUp`` stops
work that nobody waits for any more.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.errors import BUG, REFUSALS, BodyTooLarge, Refusal
from service.api.responses import Json, error_body
from service.observability.logging import request_id
from service.observability.metrics import NO_MODEL, Metrics

logger = logging.getLogger(__name__)
access_logger = logging.getLogger("service.access")

_VALID_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_QUIET = frozenset({"/livez", "/readyz", "/health", "/metrics"})
"""Routes that machines ask every few seconds; logged at debug level."""

_CLIENT_CLOSED_REQUEST = 499
"""What nginx calls a client that hung up. It is logged; nobody receives it."""


@dataclass(slots=True)
class RequestFacts:
    """What handlers find out about a request, for the log and the metrics."""

    model: str = NO_MODEL
    refusal: Refusal | None = None


def facts_of(request: Request) -> RequestFacts:
    facts = request.state.facts
    assert isinstance(facts, RequestFacts)
    return facts


class RequestLog:
    """Gives every request an id, a line in the log, a place in the metrics, and an answer."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        facts = RequestFacts()
        scope.setdefault("state", {})["facts"] = facts
        identifier = _identifier(Headers(scope=scope))
        token = request_id.set(identifier)
        status: int | None = None

        async def send_named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["x-request-id"] = identifier
                headers["x-total-time"] = f"{_milliseconds_since(started):.1f}"
            await send(message)

        hung_up = False
        try:
            await self.app(scope, receive, send_named)
        except ClientDisconnect:
            hung_up = True
        except asyncio.CancelledError:
            hung_up = True
            raise
        # The outermost layer: whatever nobody expected becomes one line for us and one for them.
        except Exception:
            facts.refusal = BUG
            logger.exception("a request failed unexpectedly")
            if status is None:
                body = error_body(f"internal error; it was logged as request {identifier}")
                await Json(body, BUG.status)(scope, receive, send_named)
        finally:
            shown = _CLIENT_CLOSED_REQUEST if hung_up else status
            self._record(scope, facts, shown, time.perf_counter() - started)
            request_id.reset(token)

    def _record(
        self, scope: Scope, facts: RequestFacts, status: int | None, seconds: float
    ) -> None:
        route = getattr(scope.get("route"), "path", "other")
        if status == _CLIENT_CLOSED_REQUEST:
            self.metrics.request_finished(route, facts.model, "cancelled", seconds)
            self.metrics.request_failed("disconnect")
        elif facts.refusal is not None:
            self.metrics.request_finished(route, facts.model, facts.refusal.outcome, seconds)
            self.metrics.request_failed(facts.refusal.reason)
        else:
            self.metrics.request_finished(route, facts.model, "ok", seconds)
        access_logger.log(
            logging.DEBUG if route in _QUIET else logging.INFO,
            "%s %s",
            scope["method"],
            scope["path"],
            extra={"status": status, "milliseconds": round(seconds * 1000, 1)},
        )


class BodyLimit:
    """Refuses a body that is too large: by its announced length at once, else when it gets there.

    The rest of a refused body is the server's to discard, which keeps the connection usable. Who
    waits for ``100 Continue`` sends no body at all, so there the connection has to end.
    """

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self.app = app
        self.max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        announced = headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > self.max_bytes:
            await self._refuse(scope, receive, send, closing="expect" in headers)
            return
        received = 0

        async def receive_limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.max_bytes:
                raise BodyTooLarge(self.max_bytes)
            return message

        await self.app(scope, receive_limited, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, *, closing: bool) -> None:
        refusal = REFUSALS[BodyTooLarge]
        scope["state"]["facts"].refusal = refusal
        headers = {"connection": "close"} if closing else {}
        body = error_body(str(BodyTooLarge(self.max_bytes)))
        await Json(body, refusal.status, headers=headers)(scope, receive, send)


class CancelOnHangUp:
    """Cancels the handler once its client has gone.

    A server tells of a hang-up only whoever asks, and a handler does not ask while it works. This
    asks from the moment the body has been read, and not before: asking earlier would take pieces
    of the body away from the handler.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        watch: asyncio.Task[Message] | None = None
        answered = hung_up = False

        def cancel(watch: asyncio.Task[Message]) -> None:
            nonlocal hung_up
            # A server also says "disconnect" to whoever still listens after the answer.
            if not (watch.cancelled() or watch.exception() or answered or work.done()):
                hung_up = True
                work.cancel()

        async def send_and_note(message: Message) -> None:
            nonlocal answered
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                answered = True

        async def receive_then_watch() -> Message:
            nonlocal watch
            if watch is not None:
                return await asyncio.shield(watch)
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body", False):
                watch = asyncio.create_task(_receive_once(receive))
                watch.add_done_callback(cancel)
            return message

        work = asyncio.ensure_future(self.app(scope, receive_then_watch, send_and_note))
        try:
            await work
        except asyncio.CancelledError:
            if not hung_up:
                raise
            raise ClientDisconnect from None
        finally:
            if watch is not None:
                watch.cancel()


async def _receive_once(receive: Receive) -> Message:
    return await receive()


def _identifier(headers: Headers) -> str:
    given = headers.get("x-request-id", "")
    return given if _VALID_ID.fullmatch(given) else uuid.uuid4().hex


def _milliseconds_since(started: float) -> float:
    return (time.perf_counter() - started) * 1000
