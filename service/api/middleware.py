"""What is done for every request, around all routes: plain ASGI, nothing of translation.

From the outside in: ``Cors`` lets scripts of other sites read every answer; ``RequestLog`` names
the request, times it, counts it, traces it, logs it and answers for bugs;
``draining.RefuseWhileDraining`` turns away who comes too late; ``bodies.BodyLimit`` refuses what
is too large or too slow; ``CancelOnHangUp`` stops work that nobody waits for any more.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.draining import PROBES
from service.api.errors import BUG, Refusal
from service.api.responses import Json, error_body_for
from service.observability.logging import request_id, trace_id
from service.observability.metrics import NO_MODEL, Metrics, Outcome
from service.observability.spans import RequestFinished, RequestSpan
from service.observability.tracing import SilentTracing, Tracing
from service.translation.types import Timing

logger = logging.getLogger(__name__)
access_logger = logging.getLogger("service.access")

_VALID_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")

_CLIENT_CLOSED_REQUEST = 499
"""What nginx calls a client that hung up. It is logged; nobody receives it."""

_CORS = {
    "access-control-allow-origin": "*",
    "access-control-allow-credentials": "true",
    "access-control-allow-headers": "Authorization, Content-Type",
    "access-control-allow-methods": "GET, POST",
    "access-control-max-age": "1728000",
    "access-control-expose-headers": "Retry-After, X-Request-Id, X-Translation-Id",
}
"""LibreTranslate's, and what else a script may read. Because of the ``*`` browsers withhold answers
to requests with cookies in spite of ``allow-credentials``; naming the origin instead, as is often
done, would let every site act for whoever is logged in at a proxy before us."""


@dataclass(slots=True)
class RequestFacts:
    """What handlers find out about a request, for the log, the metrics, headers and traces."""

    model: str = NO_MODEL
    model_version: str | None = None
    characters: int | None = None
    """Of the source texts."""
    tokens: int | None = None
    """Of source and translation."""
    timing: Timing | None = None
    refusal: Refusal | None = None


def facts_of(request: Request) -> RequestFacts:
    facts = request.state.facts
    assert isinstance(facts, RequestFacts)
    return facts


async def answer_bug(request: Request, error: Exception) -> Response:
    """For ``Exception`` in apps that are mounted: each would answer for bugs in a shape of its own
    before ``RequestLog`` hears of them."""
    return _bug_answer(request.scope["path"])


def _bug_answer(path: str) -> Response:
    problem = f"internal error; it was logged as request {request_id.get()}"
    return Json(error_body_for(path, problem), BUG.status)


class Cors:
    """Says of every answer that any site may read it, and answers who asks beforehand."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_open(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_CORS)
            await send(message)

        asks = "access-control-request-method" in Headers(scope=scope)
        app = Response(status_code=204) if scope["method"] == "OPTIONS" and asks else self.app
        await app(scope, receive, send_open)


class RequestLog:
    """Gives every request an id, a line in the log, a place in the metrics, and an answer."""

    def __init__(self, app: ASGIApp, metrics: Metrics, tracing: Tracing | None = None) -> None:
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
        # Probes come by the thousand and would hide everything else.
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
                headers = MutableHeaders(scope=message)
                headers["x-request-id"] = identifier
                headers.update(_told(facts, time.perf_counter() - started))
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
                scope["path"],
                extra={"status": shown, "milliseconds": round(seconds * 1000, 1)},
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


@contextmanager
def _named(identifier: str, span: RequestSpan) -> Iterator[None]:
    """Lines of the log carry the request's id, and its trace's if there is one."""
    of_request, of_trace = request_id.set(identifier), trace_id.set(span.trace_id)
    try:
        yield
    finally:
        request_id.reset(of_request)
        trace_id.reset(of_trace)


def _route(scope: Scope, behind: str) -> str:
    """The template of the path with that of the app mounted there, but not of a proxy's path."""
    mounted = scope.get("root_path", "").removeprefix(behind)
    return mounted + getattr(scope.get("route"), "path", "") or "other"


def _told(facts: RequestFacts, seconds: float) -> dict[str, str]:
    """Headers in the spelling of TGI and TEI, whose tools read them; times in milliseconds."""
    told: dict[str, object] = {"x-total-time": _milliseconds(seconds)}
    if facts.timing is not None:
        told["x-tokenization-time"] = _milliseconds(facts.timing.preparing)
        told["x-queue-time"] = _milliseconds(facts.timing.queued)
        told["x-inference-time"] = _milliseconds(facts.timing.decoding)
    told["x-compute-characters"] = facts.characters
    told["x-compute-tokens"] = facts.tokens
    told["x-model-version"] = facts.model_version
    return {name: str(value) for name, value in told.items() if value is not None}


def _stages(timing: Timing | None) -> dict[str, float]:
    if timing is None:
        return {}
    return {"prepare": timing.preparing, "queue": timing.queued, "decode": timing.decoding}


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f}"
