"""The root app: LibreTranslate's routes and error bodies, operations, pages, middleware."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from service.api import libretranslate, operations
from service.api.errors import EXPECTED, UNKNOWN_PATH, BadRequest, headers_of, refusal_of
from service.api.libretranslate import RequestLimits
from service.api.middleware import BodyLimit, CancelOnHangUp, RequestLog, facts_of
from service.api.pages import add_pages
from service.api.responses import Json, error_body
from service.observability.metrics import Metrics
from service.translation.repository import ModelRepository
from service.translation.translator import Translator

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]

_DESCRIPTION = """Machine translation in LibreTranslate's shape, with the decoding options of a
beam search. Errors are always `{"error": "..."}` and say what is wrong and what would do."""


def create_root_app(
    repository: ModelRepository,
    translator: Translator,
    metrics: Metrics,
    *,
    limits: RequestLimits,
    max_body_bytes: int,
    version: str,
    lifespan: Lifespan,
) -> FastAPI:
    app = FastAPI(
        title="Dragoman",
        version=version,
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.include_router(libretranslate.create_router(translator, repository, metrics, limits))
    app.include_router(operations.create_router(repository, metrics))
    add_pages(app)
    for kind in EXPECTED:
        app.add_exception_handler(kind, _refuse)
    app.add_exception_handler(HTTPException, _refuse_plainly)
    app.add_exception_handler(RequestValidationError, _refuse_validation)
    # The last one added is the outermost.
    app.add_middleware(CancelOnHangUp)
    app.add_middleware(BodyLimit, max_bytes=max_body_bytes)
    app.add_middleware(RequestLog, metrics=metrics)
    return app


async def _refuse(request: Request, error: Exception) -> Response:
    refusal = refusal_of(error)
    facts_of(request).refusal = refusal
    return Json(error_body(str(error)), refusal.status, headers=headers_of(error))


async def _refuse_plainly(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    facts_of(request).refusal = UNKNOWN_PATH
    return Json(error_body(error.detail), error.status_code, headers=error.headers)


async def _refuse_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    problem = BadRequest(f"Invalid request: {first['loc'][-1]} parameter: {first['msg']}")
    return await _refuse(request, problem)
