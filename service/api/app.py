"""Root FastAPI application: routes, mounted dialects, pages, error handlers and middleware."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus

from fastapi import APIRouter, FastAPI, Request, Response
from starlette.exceptions import HTTPException

from service.api.draining import Drain
from service.api.error_bodies import error_body_for
from service.api.errors import (
    EXPECTED,
    UNKNOWN_PATH,
    refusal_of,
)
from service.api.middleware import (
    NO_TELEMETRY,
    AnswerHead,
    BodyLimit,
    CancelOnHangUp,
    Cors,
    MergeSlashes,
    RefuseWhileDraining,
    RequestLog,
    allowed,
    facts_of,
)
from service.api.responses import Json, refused
from service.api.routing import methods_at
from service.observability.metrics import RequestObserver
from service.observability.tracing import Tracing

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]

_DESCRIPTION = """Machine translation in LibreTranslate's shape, and in DeepL's at `/v2`, with the
decoding options of a beam search and every attention map. Errors are always `{"error": "..."}`
(`{"message": "..."}` under `/v2` and `/v3`) and say what is wrong and what would do."""


def create_root_app(
    routers: Sequence[APIRouter],
    dialects: Mapping[str, FastAPI],
    metrics: RequestObserver,
    drain: Drain,
    tracing: Tracing,
    *,
    max_body_bytes: int,
    larger_bodies: Mapping[str, int],
    version: str,
    lifespan: Lifespan,
) -> FastAPI:
    """Build the app; ``dialects`` maps mount paths to apps with their own error bodies.

    The first of ``routers`` gets most requests.
    ``larger_bodies`` maps paths to limits above ``max_body_bytes``.
    """
    app = FastAPI(
        title="Dragoman",
        version=version,
        description=_DESCRIPTION,
        openapi_url=None,
        # A redirect would repeat the Host header of the request.
        redirect_slashes=False,
        lifespan=lifespan,
        telemetry=NO_TELEMETRY,
    )
    # Routes are compared with a path one after the other: those of translations come first.
    # Included routers would match every request once more.
    app.router.routes.extend(routers[0].routes)
    for path, dialect in dialects.items():
        app.mount(path, dialect)
    for router in routers[1:]:
        app.router.routes.extend(router.routes)
    for kind in EXPECTED:
        app.add_exception_handler(kind, _refuse)
    app.add_exception_handler(HTTPException, _refuse_plainly)
    # The middleware added last is the outermost.
    app.add_middleware(AnswerHead)
    app.add_middleware(CancelOnHangUp)
    app.add_middleware(BodyLimit, max_bytes=max_body_bytes, larger=larger_bodies)
    app.add_middleware(RefuseWhileDraining, drain=drain)
    app.add_middleware(RequestLog, metrics=metrics, tracing=tracing)
    app.add_middleware(Cors)
    app.add_middleware(MergeSlashes)
    return app


async def _refuse(request: Request, error: Exception) -> Response:
    facts_of(request).refusal = refusal_of(error)
    return refused(error)


async def _refuse_plainly(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    facts_of(request).refusal = UNKNOWN_PATH
    # A path with a line break matches no mount, but a dialect's client may have sent it.
    body = error_body_for(request.scope["path"], error.status_code, error.detail)
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers = allowed(methods_at(request.scope, request.app.router.routes))
    return Json(body, error.status_code, headers=headers)
