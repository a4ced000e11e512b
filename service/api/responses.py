"""JSON responses, and documented error responses of the root app."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable
from functools import cache
from types import MappingProxyType
from typing import Any

import msgspec
from fastapi.responses import JSONResponse, Response
from msgspec import Raw
from starlette.requests import Request

from service.api.error_bodies import ErrorAnswer, libretranslate_body
from service.api.errors import headers_of, message_of, refusal_of
from service.api.fields.schemas import Answer, answer_of

_RANGE = re.compile(
    r"bytes=(?:(?P<start>\d{1,18})-(?P<last>\d{0,18})|-(?P<tail>\d{1,18}))", re.ASCII
)


class Json(JSONResponse):
    """Compact UTF-8 JSON of an ``Answer``, a list of them, or a JSON-serialisable value."""

    def render(self, content: Any) -> bytes:
        return json_bytes(content)


def json_bytes(content: Any) -> bytes:
    """Compact JSON on one line of a value that may contain ``Answer`` objects.

    A lone surrogate, echoed from a request, is escaped.
    """
    try:
        return _encoder.encode(content)
    except UnicodeEncodeError:
        # Of both encoders, only this one can escape what is not valid Unicode.
        return json.dumps(content, separators=(",", ":"), default=_fields).encode()


async def long_list(name: str, items: Iterable[Answer], /, **before: Any) -> Response:
    """A response like ``Json`` of an object with the fields ``before``, and ``items`` as ``name``.

    A thread takes and serialises the items, see ``list_json``.
    """
    content = await asyncio.to_thread(list_json, name, items, **before)
    return Response(content, media_type=Json.media_type)


def ranged(request: Request, content: bytes, headers: dict[str, str]) -> Response:
    """A response with ``content``, or with the one range of bytes that the request asks for.

    Several ranges are answered as none (RFC 9110, section 14.2), and so is ``If-Range``, because
    no version of the content has a name.
    """
    headers = {**headers, "accept-ranges": "bytes"}
    asked = _RANGE.fullmatch(request.headers.get("range", ""))
    if asked is None or "if-range" in request.headers:
        return Response(content, headers=headers)
    size = len(content)
    start, end = max(0, size - int(asked["tail"] or 0)), size
    if asked["start"]:
        start, end = int(asked["start"]), min(size, int(asked["last"] or size) + 1)
        if asked["last"] and int(asked["last"]) < start:
            return Response(content, headers=headers)
    if start >= size:
        return Response(status_code=416, headers={**headers, "content-range": f"bytes */{size}"})
    headers["content-range"] = f"bytes {start}-{end - 1}/{size}"
    return Response(content[start:end], 206, headers)


def list_json(name: str, items: Iterable[Answer], /, **before: Any) -> bytes:
    """JSON of an object with the fields ``before``, and ``items`` as ``name``."""
    fields = {field: Raw(json_bytes(value)) for field, value in before.items()}
    return json_bytes({**fields, name: encoded_each(items)})


def encoded_each(items: Iterable[Any]) -> list[Raw]:
    """Items of a long list, for ``json_bytes``, taken and encoded one by one.

    One call for all items would hold the interpreter lock until it returns, and so would the
    garbage collection of their objects.
    """
    return [Raw(json_bytes(item)) for item in items]


def _fields(value: object) -> object:
    """The fields of an answer that were set, by their names in JSON; a NumPy float as a plain one.

    The encoder passes the answers within an answer separately.
    """
    if isinstance(value, Answer):
        names, given = _names(type(value)), value.model_fields_set
        return {names[field]: content for field, content in value if field in given}
    if isinstance(value, float):
        return float(value)
    raise TypeError(f"{type(value).__name__} is no answer")


@cache
def _names(answer: type[Answer]) -> dict[str, str]:
    """Names in JSON by the names of fields."""
    fields = answer.model_fields.items()
    return {name: field.serialization_alias or name for name, field in fields}


_encoder = msgspec.json.Encoder(enc_hook=_fields)


def refused(error: Exception) -> Response:
    """Answer of the root app to an expected error."""
    status = refusal_of(error).status
    body = libretranslate_body(status, message_of(error))
    return Json(body, status, headers=headers_of(error))


_REASONS = MappingProxyType(
    {
        400: "A field is missing or not what it should be, or a key is needed.",
        401: "A key is needed, or it is wrong.",
        403: "The key is wrong, its quota is spent, or the operator has switched this off.",
        404: "Unknown path, model, document or translation, or one that has been removed.",
        405: "Another method is needed, or `langpair`.",
        408: "The body did not arrive in time.",
        409: "The name or the key is in use.",
        410: "The model of this translation has been replaced.",
        413: "The body, the text or a word in it is too large.",
        429: "More requests than this caller may send in a minute.",
        500: "The model failed, or the service has a bug.",
        503: "The service is full, has no model yet, or is shutting down.",
        504: "The request was not done in the time it had.",
    }
)


def refusals(*statuses: int, shape: type[Answer] = ErrorAnswer) -> dict[int | str, dict[str, Any]]:
    """The ``responses`` of a route that may be answered with these statuses."""
    return {s: {"description": _REASONS[s], **answer_of(shape)} for s in statuses}
