"""ASGI middleware for slashes, CORS, ids, logs, metrics, drain, body limits and cancellation.

From the outside in: ``MergeSlashes`` reads a doubled slash at the beginning of a path as one.
``Cors`` lets scripts of other sites read every answer. ``RequestLog``
identifies, times, counts, traces and logs requests, and answers unexpected exceptions.
``RefuseWhileDraining`` refuses requests during shutdown. ``BodyLimit`` refuses
large and slow bodies. ``CancelOnHangUp`` cancels the work of disconnected clients. ``AnswerHead``
answers HEAD as GET.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.draining import PROBES, Drain
from service.api.error_bodies import error_body_for
from service.api.errors import (
    BUG,
    CUT_SHORT,
    REFUSALS,
    BodyTooLarge,
    BodyTooSlow,
    Refusal,
    RequestError,
    ShuttingDown,
    headers_of,
)
from service.api.responses import Json
from service.observability.logging import request_id, trace_id
from service.observability.metrics import NO_MODEL, Outcome, RequestObserver
from service.observability.tracing import RequestFinished, RequestSpan, SilentTracing, Tracing
from service.translation.types import Timing

logger = logging.getLogger(__name__)
access_logger = logging.getLogger("service.access")

_VALID_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")

_SLASHES = re.compile("^/*(/v[23](?=/))?/+")
"""Slashes at the beginning of a path, and after the version of DeepL's API."""

_IDENTIFIER = re.compile(r"[\w-]{32,}")
"""Parts of a path that may be identifiers, of documents and translation memories for example."""

_CLIENT_CLOSED_REQUEST = 499
"""nginx's status for a client that disconnected; it appears only in the log."""

BODY_SECONDS = 20.0
BODY_BYTES_PER_SECOND = 500
"""A body may take ``BODY_SECONDS``, and one more second for every 500 bytes received. No pause in
it may last longer than ``BODY_SECONDS``.

An unfinished body holds a connection and memory, so slow senders could occupy all of them. The
values are those of Apache's mod_reqtimeout, lenient enough for a phone.
"""

NO_TELEMETRY: Any = {"tracing": False, "metrics": False, "logs": False}
"""Settings of FastAPI that turn its telemetry off; older versions ignore them. ``RequestLog``
traces and counts every request."""

NO_LARGER: Mapping[str, int] = MappingProxyType({})

_DISCARDED_BYTES = 1 << 20
_DISCARDED_SECONDS = 2.0
"""Limits of what is read of a refused body. Closing a connection with unread bytes would reset it,
and the client might never see the refusal. Longer or slower bodies accept that risk."""

_PREFLIGHT = {
    "access-control-allow-headers": "Authorization, Content-Type, X-API-Key, X-Goog-Api-Key, "
    "X-Request-Id, X-Request-Timeout",
    "access-control-allow-methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
    "access-control-max-age": "1728000",
}
"""LibreTranslate's headers, and the further methods and headers that scripts may use."""
_CORS = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-credentials", b"true"),
    (
        b"access-control-expose-headers",
        b"Content-Disposition, Retry-After, X-Request-Id, "
        b"X-Translation-Id, X-Total-Time, X-Tokenization-Time, X-Queue-Time, X-Inference-Time, "
        b"X-Compute-Characters, X-Compute-Tokens, X-Model-Version",
    ),
)
"""Headers of every answer. Browsers withhold answers to requests with cookies for ``*``, despite
``allow-credentials``. Echoing the origin instead would let every site act for users who are logged
in at a proxy."""


@dataclass(slots=True)
class RequestFacts:
    """Facts that handlers record about a request, for logs, metrics, headers and traces."""

    caller: str | None = None
    """Name of the caller's key."""
    model: str = NO_MODEL
    model_version: str | None = None
    characters: int | None = None
    """Characters of the source texts."""
    tokens: int | None = None
    """Tokens of source and translation."""
    timing: Timing | None = None
    refusal: Refusal | None = None


def facts_of(request: Request) -> RequestFacts:
    facts = request.state.facts
    assert isinstance(facts, RequestFacts)
    return facts


def note_caller(connection: HTTPConnection, name: str | None) -> None:
    """Record the name of the caller's key, for the log line of a request within ``RequestLog``."""
    facts = connection.scope.get("state", {}).get("facts")
    if isinstance(facts, RequestFacts):
        facts.caller = name


async def answer_bug(request: Request, error: Exception) -> Response:
    """Exception handler of mounted apps; their default handlers would answer in another shape
    before ``RequestLog`` sees the exception."""
    return _bug_answer(request.scope["path"])


def _bug_answer(path: str) -> Response:
    problem = f"internal error; it was logged as request {request_id.get()}"
    return Json(error_body_for(path, BUG.status, problem), BUG.status)


class MergeSlashes:
    """Reads doubled slashes at the beginning of a path, and after ``/v2`` or ``/v3``, as one.

    Clients join a base URL that ends with a slash and ``/translate``. LibreTranslate's server
    serves them, too.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(with_single_slashes(scope), receive, send)


def with_single_slashes(scope: Scope) -> Scope:
    """The scope of a request as ``MergeSlashes`` passes it on."""
    path = scope.get("path", "")
    if "//" not in path:
        return scope
    prefix = scope.get("root_path", "") if path.startswith(scope.get("root_path", "")) else ""
    below = path[len(prefix) :]
    return {**scope, "path": prefix + _SLASHES.sub(r"\1/", below, count=1)}


class Cors:
    """Lets scripts of any site read every answer, and answers preflight requests."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_open(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add_headers(message, _CORS)
            await send(message)

        asks = "access-control-request-method" in Headers(scope=scope)
        app = self.app
        if scope["method"] == "OPTIONS" and asks:
            app = Response(status_code=204, headers=_PREFLIGHT)
        await app(scope, receive, send_open)


class RequestLog:
    """Gives every request an id, a log line, metrics, a trace and, after a bug, an answer."""

    def __init__(
        self, app: ASGIApp, metrics: RequestObserver, tracing: Tracing | None = None
    ) -> None:
        self.app = app
        self.metrics = metrics
        self.tracing = tracing or SilentTracing()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        self.metrics.request_accepted()
        headers = Headers(scope=scope)
        identifier = _identifier(headers)
        # Probes are frequent and would hide all other traces.
        tracing = SilentTracing() if scope["path"] in PROBES else self.tracing
        with tracing.request(scope["method"], headers) as span, _named(identifier, span):
            await self._answer(scope, receive, send, started, identifier, span)

    async def _answer(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        started: float,
        identifier: str,
        span: RequestSpan,
    ) -> None:
        facts = RequestFacts()
        scope.setdefault("state", {})["facts"] = facts
        behind = scope.get("root_path", "")
        status: int | None = None

        async def send_named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _add_headers(message, _headers(identifier, facts, time.perf_counter() - started))
            await send(message)

        hung_up = False
        try:
            await self.app(scope, receive, send_named)
        except ClientDisconnect:
            hung_up = True
        except asyncio.CancelledError:
            hung_up = True
            raise
        # Outermost layer: an unexpected exception is logged once and answered with 500.
        except Exception:
            facts.refusal = BUG
            logger.exception("a request failed unexpectedly")
            if status is None:
                await _bug_answer(scope["path"])(scope, receive, send_named)
        finally:
            shown = _CLIENT_CLOSED_REQUEST if hung_up else status
            route = _route(scope, behind)
            seconds = time.perf_counter() - started
            outcome = self._count(route, facts, hung_up, seconds, span)
            access_logger.log(
                logging.DEBUG if route in PROBES else logging.INFO,
                "%s %s",
                scope["method"],
                # A link to a document gives access by its id alone.
                route if "{" in route else _IDENTIFIER.sub("{id}", scope["path"]),
                extra=_line_of(facts, shown, seconds),
            )
            span.finish(
                RequestFinished(
                    route,
                    shown,
                    outcome,
                    identifier,
                    facts.model,
                    facts.characters,
                    facts.tokens,
                    _stages(facts.timing),
                )
            )

    def _count(
        self, route: str, facts: RequestFacts, hung_up: bool, seconds: float, span: RequestSpan
    ) -> Outcome:
        outcome: Outcome = "ok"
        if hung_up:
            outcome = "cancelled"
            self.metrics.request_failed("disconnect")
        elif facts.refusal is not None:
            outcome = facts.refusal.outcome
            self.metrics.request_failed(facts.refusal.reason)
        kept = span.trace_id if span.sampled else None
        self.metrics.request_finished(route, facts.model, outcome, seconds, kept)
        if facts.timing is not None:
            self.metrics.tokenized(facts.model, facts.timing.preparing)
        return outcome


class CancelOnHangUp:
    """Cancels the handler once its client disconnects.

    A server reports a disconnect only to a pending ``receive``, which a working handler does not
    call. This middleware calls it once the body has been read; an earlier call would take parts of
    the body away from the handler.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        loop, work = asyncio.get_running_loop(), asyncio.current_task()
        assert work is not None
        watch: asyncio.Task[Message] | None = None
        soon: asyncio.Handle | None = None
        answered = ended = hung_up = False

        def cancel(watch: asyncio.Task[Message]) -> None:
            nonlocal hung_up
            # A server also reports "disconnect" after the answer.
            if not (watch.cancelled() or watch.exception() or answered or ended):
                hung_up = True
                work.cancel()

        def begin_watch() -> asyncio.Task[Message]:
            nonlocal watch
            if watch is None:
                watch = loop.create_task(_receive_once(receive))
                watch.add_done_callback(cancel)
            return watch

        async def send_and_note(message: Message) -> None:
            nonlocal answered
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                answered = True

        async def receive_then_watch() -> Message:
            nonlocal soon
            if soon is not None:
                return await asyncio.shield(begin_watch())
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body", False):
                # A handler that answers without waiting, as from the result cache, needs no task.
                soon = loop.call_soon(begin_watch)
            return message

        try:
            await self.app(scope, receive_then_watch, send_and_note)
        except asyncio.CancelledError:
            if not hung_up:
                raise
            work.uncancel()
            raise ClientDisconnect from None
        finally:
            ended = True
            if soon is not None:
                soon.cancel()
            if watch is not None:
                watch.cancel()


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
                if self.drain.leaving:
                    MutableHeaders(scope=message)["connection"] = "close"
            await send(message)

        if scope["path"] in PROBES:
            await self.app(scope, receive, send_last)
            return
        if self.drain.begun:
            await _discard_body(scope, receive)
            await _refuse_draining(scope, receive, send_last)
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
                    await _refuse_draining(scope, receive, send_last, cut=True)


async def _refuse_draining(
    scope: Scope, receive: Receive, send: Send, *, cut: bool = False
) -> None:
    error = ShuttingDown(cut=cut)
    if not cut:
        scope["state"]["facts"].refusal = REFUSALS[ShuttingDown]
    body = error_body_for(scope["path"], CUT_SHORT.status, str(error))
    await Json(body, CUT_SHORT.status, headers=headers_of(error))(scope, receive, send)


async def _discard_body(scope: Scope, receive: Receive) -> None:
    if "expect" in Headers(scope=scope):
        return  # The client has sent no body yet.
    received, more = 0, True
    try:
        async with asyncio.timeout(_DISCARDED_SECONDS):
            while more and received < _DISCARDED_BYTES:
                message = await receive()
                received += len(message.get("body", b""))
                more = message.get("more_body", False)
    except TimeoutError:
        return


class PatientBody:
    """A request's body, waited for as long as ``BODY_SECONDS`` says, from its construction on."""

    def __init__(self, receive: Receive, seconds: float = BODY_SECONDS) -> None:
        self._receive = receive
        self._seconds = seconds
        self._clock = asyncio.get_running_loop().time
        self._started = self._clock()
        self._complete = False
        self.received = 0
        """Bytes."""
        self.too_slow = False

    async def receive(self) -> Message:
        """The next ASGI message; raises ``BodyTooSlow``."""
        if self._complete:
            return await self._receive()
        latest = self._started + self._seconds + self.received / BODY_BYTES_PER_SECOND
        try:
            async with asyncio.timeout_at(min(latest, self._clock() + self._seconds)):
                message = await self._receive()
        except TimeoutError:
            self.too_slow = True
            raise BodyTooSlow from None
        self._complete = not message.get("more_body", False)
        self.received += len(message.get("body", b""))
        return message


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
        body = PatientBody(receive, self.seconds)

        async def receive_limited() -> Message:
            message = await body.receive()
            if message["type"] == "http.request" and body.received > most:
                raise BodyTooLarge(most)
            return message

        async def send_closing(message: Message) -> None:
            if message["type"] == "http.response.start" and body.too_slow:
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
        body = error_body_for(scope["path"], refusal.status, str(error))
        await Json(body, refusal.status, headers=headers)(scope, receive, send)


class AnswerHead:
    """Answers HEAD on every path that has GET, with the headers of GET.

    A handler that changes something on GET asks ``is_head``.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        scope["state"]["head"] = True
        # The server reads the method from its own scope.
        as_get = {**scope, "method": "GET"}
        try:
            await self.app(as_get, receive, send_head)
        finally:
            scope.update(as_get, method="HEAD")


def is_head(request: Request) -> bool:
    """Whether ``AnswerHead`` made a GET request of a HEAD request."""
    return getattr(request.state, "head", False)


def allowed(methods: Iterable[str]) -> dict[str, str]:
    """The header of a 405 answer."""
    known = {method.strip() for method in methods}
    return {"allow": ", ".join(sorted(known | ({"HEAD"} if "GET" in known else set())))}


async def _receive_once(receive: Receive) -> Message:
    return await receive()


def _identifier(headers: Headers) -> str:
    given = headers.get("x-request-id", "")
    return given if _VALID_ID.fullmatch(given) else secrets.token_hex(16)


@contextmanager
def _named(identifier: str, span: RequestSpan) -> Iterator[None]:
    """Set the request id and the trace id, if there is one, for log lines."""
    of_request, of_trace = request_id.set(identifier), trace_id.set(span.trace_id)
    try:
        yield
    finally:
        request_id.reset(of_request)
        trace_id.reset(of_trace)


def _route(scope: Scope, behind: str) -> str:
    """Route template with the mount path, but without the path prefix of a proxy."""
    mounted = scope.get("root_path", "").removeprefix(behind)
    return mounted + getattr(scope.get("route"), "path", "") or "other"


def _add_headers(message: Message, headers: Sequence[tuple[bytes, bytes]]) -> None:
    """Add headers, with names in lower case, that no handler sets."""
    message["headers"] = [*message.get("headers", ()), *headers]


def _headers(identifier: str, facts: RequestFacts, seconds: float) -> list[tuple[bytes, bytes]]:
    """Request id, and timing headers in the spelling of TGI and TEI, whose tools read them;
    milliseconds."""
    headers: list[tuple[bytes, object]] = [
        (b"x-request-id", identifier),
        (b"x-total-time", _milliseconds(seconds)),
    ]
    if facts.timing is not None:
        headers += [
            (b"x-tokenization-time", _milliseconds(facts.timing.preparing)),
            (b"x-queue-time", _milliseconds(facts.timing.queued)),
            (b"x-inference-time", _milliseconds(facts.timing.decoding)),
        ]
    headers += [
        (b"x-compute-characters", facts.characters),
        (b"x-compute-tokens", facts.tokens),
        (b"x-model-version", facts.model_version),
    ]
    return [(name, str(value).encode("latin-1")) for name, value in headers if value is not None]


def _line_of(facts: RequestFacts, status: int | None, seconds: float) -> dict[str, object]:
    """Fields of a request's log line; without caller, characters and model if not known."""
    model = None if facts.model == NO_MODEL else facts.model
    known = {"caller": facts.caller, "characters": facts.characters, "model": model}
    return {
        "status": status,
        "milliseconds": round(seconds * 1000, 1),
        **{name: value for name, value in known.items() if value is not None},
    }


def _stages(timing: Timing | None) -> dict[str, float]:
    if timing is None:
        return {}
    return {"prepare": timing.preparing, "queue": timing.queued, "decode": timing.decoding}


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f}"
