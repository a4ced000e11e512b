"""Error responses of DeepL's dialect: statuses, bodies and exception handlers.

The official client reads ``message`` and fails if it is not a string. It accepts only 403 for a
wrong key and only 456 for a spent quota. It retries after 429 and every status from 500 on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Route

from service.api.errors import (
    EXPECTED,
    UNKNOWN_PATH,
    BadRequest,
    KeyMissing,
    headers_of,
    refusal_of,
)
from service.api.middleware import answer_bug, facts_of
from service.api.responses import Json
from service.state.errors import QuotaExceeded

QUOTA_EXCEEDED = 456

_STATUSES: dict[type[Exception], int] = {
    KeyMissing: HTTPStatus.FORBIDDEN,
    QuotaExceeded: QUOTA_EXCEEDED,
}
"""Statuses that differ from those in ``service.api.errors``."""


class ErrorAnswer(BaseModel):
    message: str = Field(examples=["Value for 'target_lang' not supported."])


_DESCRIPTIONS = {
    400: "A field is missing or not what it should be.",
    403: "The key is missing or wrong.",
    404: "There is no such thing.",
    413: "The body, the text or a word in it is too large.",
    429: "More requests than the caller may send in a minute.",
    QUOTA_EXCEEDED: "The characters of the month are spent.",
    500: "The model failed, or the service has a bug.",
    503: "The service is full, is stopping, or has no model yet.",
    504: "The request was not done in time.",
}


def answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The ``responses`` of a route: these statuses, and those that any request may get."""
    documented = sorted({*statuses, 400, 403, 413, 429, 500, 503})
    return {s: {"model": ErrorAnswer, "description": _DESCRIPTIONS[s]} for s in documented}


def status_of(error: Exception) -> int:
    return _STATUSES.get(type(error), refusal_of(error).status)


def message_of(error: Exception) -> str:
    """Message for the client; for an unexpected error, it reveals no details."""
    return str(error) if isinstance(error, EXPECTED) else "internal error; the server's log has it"


def add_error_handlers(app: FastAPI, routes: Sequence[BaseRoute]) -> None:
    """``routes`` are those of the app, one for each method of a path."""

    async def refuse_plainly(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        headers = dict(error.headers or {})
        known = error.status_code in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)
        facts_of(request).refusal = UNKNOWN_PATH if known else refusal_of(BadRequest())
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            # Starlette's header has only the methods of the first matching route.
            headers = {"allow": ", ".join(_methods_at(request, routes))}
        return _answer(str(error.detail), error.status_code, headers)

    for kind in EXPECTED:
        app.add_exception_handler(kind, _refuse)
    app.add_exception_handler(HTTPException, refuse_plainly)
    app.add_exception_handler(RequestValidationError, _refuse_validation)
    app.add_exception_handler(Exception, answer_bug)


async def _refuse(request: Request, error: Exception) -> Response:
    facts_of(request).refusal = refusal_of(error)
    return _answer(message_of(error), status_of(error), headers_of(error))


def _methods_at(request: Request, routes: Sequence[BaseRoute]) -> list[str]:
    methods: set[str] = set()
    for route in routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            methods |= route.methods or set()
    return sorted(methods)


async def _refuse_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    return await _refuse(request, BadRequest(f"Value for '{first['loc'][-1]}': {first['msg']}"))


def _answer(message: str, status: int, headers: Mapping[str, str] | None = None) -> Response:
    return Json({"message": message}, status, headers=headers)
