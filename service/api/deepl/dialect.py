"""DeepL's dialect: fields of requests, callers, statuses and bodies of errors.

The official client reads ``message`` and fails if it is not a string. It accepts only 403 for a
wrong key and only 456 for a spent quota. It retries after 429 and every status from 500 on. It
sends forms even with GET.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import FastAPI, Request, Response
from pydantic import AfterValidator, BeforeValidator, Field
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute

from service.api.access import Access, Caller
from service.api.error_bodies import DeepLErrorAnswer, deepl_body
from service.api.errors import (
    EXPECTED,
    UNKNOWN_PATH,
    BadRequest,
    KeyMissing,
    headers_of,
    refusal_of,
)
from service.api.fields.bounds import GLOSSARIES, NAME_CHARACTERS, TAG_CHARACTERS, TAGS
from service.api.fields.options import Texts
from service.api.fields.parameters import Dialect, Fields, read_fields
from service.api.fields.schemas import answer_of
from service.api.middleware import allowed, answer_bug, facts_of
from service.api.responses import Json
from service.api.routing import methods_at
from service.documents import UnsupportedDocument
from service.state.errors import QuotaExceeded

QUOTA_EXCEEDED = 456

_STATUSES: dict[type[Exception], int] = {
    KeyMissing: HTTPStatus.FORBIDDEN,
    QuotaExceeded: QUOTA_EXCEEDED,
}
"""Statuses that differ from those in ``service.api.errors``."""

_SUBJECT = re.compile("^(Input|String|List) should")


def _invalid(name: str, first: Mapping[str, Any]) -> str:
    problem = _SUBJECT.sub("it should", first["msg"].removeprefix("Value error, "))
    return f"Value for '{name}' not supported: {problem}."


DEEPL = Dialect(
    key="auth_key",
    missing=lambda name: f"Parameter '{name}' not specified.",
    invalid=_invalid,
    lists=frozenset(
        {
            *("text", "custom_instructions", "suppress_sequences", "glossary_ids"),
            *("ignore_tags", "splitting_tags", "non_splitting_tags"),
        }
    ),
)


def _split(value: Any) -> Any:
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        return value
    return [name.strip() for each in value for name in each.split(",") if name.strip()]


def _check_tags(names: list[str]) -> list[str]:
    characters = sum(map(len, names))
    if characters > TAG_CHARACTERS:
        raise ValueError(f"it has {characters} characters; at most {TAG_CHARACTERS} are accepted")
    return names


def _comma_separated(longest: int) -> BeforeValidator:
    text = Annotated[str, Field(max_length=longest)]
    return BeforeValidator(_split, json_schema_input_type=text | list[text])


CommaSeparated = Annotated[
    list[str],
    Field(max_length=TAGS),
    AfterValidator(_check_tags),
    _comma_separated(TAG_CHARACTERS),
]
"""Names of tags: a list, or separated by commas as in forms."""

Identifiers = Annotated[Texts, _comma_separated(GLOSSARIES * (NAME_CHARACTERS + 1))]
"""Ids of glossaries, likewise."""


async def identified(access: Access, request: Request, file: str = "") -> tuple[Caller, Fields]:
    """Caller and fields of a request; raises as ``read_fields`` and ``Access.identify``."""
    fields = await read_fields(request, DEEPL, file)
    return await access.identify(request, fields.key), fields


async def admitted(access: Access, request: Request) -> tuple[Caller, Fields]:
    """Caller and fields of a request that translates nothing; counts against the rate limit."""
    caller, fields = await identified(access, request)
    await access.admit(caller)
    return caller, fields


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
    return {s: {"description": _DESCRIPTIONS[s], **answer_of(DeepLErrorAnswer)} for s in documented}


def status_of(error: Exception) -> int:
    return _STATUSES.get(type(error), refusal_of(error).status)


def message_of(error: Exception) -> str:
    """Message for the client; for an unexpected error, it reveals no details."""
    if isinstance(error, UnsupportedDocument):
        # Tests of DeepL's clients look for these words.
        return f"Invalid file: {error}"
    return str(error) if isinstance(error, EXPECTED) else "internal error; the server's log has it"


def add_error_handlers(app: FastAPI, routes: Sequence[BaseRoute]) -> None:
    """``routes`` are those of the app, one for each method of a path."""

    async def refuse_plainly(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        headers = dict(error.headers or {})
        known = error.status_code in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)
        facts_of(request).refusal = UNKNOWN_PATH if known else refusal_of(BadRequest())
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            headers = allowed(methods_at(request.scope, routes))
        return _answer(str(error.detail), error.status_code, headers)

    for kind in EXPECTED:
        app.add_exception_handler(kind, _refuse)
    app.add_exception_handler(HTTPException, refuse_plainly)
    app.add_exception_handler(Exception, answer_bug)


async def _refuse(request: Request, error: Exception) -> Response:
    facts_of(request).refusal = refusal_of(error)
    return refused(error)


def refused(error: Exception) -> Response:
    """Answer of this dialect to an expected error."""
    return _answer(message_of(error), status_of(error), headers_of(error))


def _answer(message: str, status: int, headers: Mapping[str, str] | None = None) -> Response:
    return Json(deepl_body(status, message), status, headers=headers)
