"""Fields of a request, from JSON, a form of either kind, or the query string.

The rules are LibreTranslate's: a JSON body is an object and the only source; otherwise fields
come from the query string and the form, whichever has them, in this order, and the first of
several values counts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from fastapi import Request

from service.api.errors import BadRequest

_MOST_FIELDS = 100


@dataclass(frozen=True, slots=True)
class Fields:
    values: dict[str, Any]
    as_json: bool
    hint: str = ""
    """What to tell somebody who misses a field that they did send."""


async def read_fields(request: Request) -> Fields:
    """Read the fields of a request; raises ``BadRequest`` for what cannot be read."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type == "application/json" or content_type.endswith("+json"):
        return Fields(_object(await request.body()), as_json=True)
    pairs = _pairs(request.scope["query_string"])
    hint = ""
    if content_type == "multipart/form-data":
        async with request.form(max_files=0, max_fields=_MOST_FIELDS) as form:
            pairs += [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
    else:
        body = await request.body()
        if body.lstrip().startswith((b"{", b"[")):
            hint = "; the body looks like JSON: send it with content-type application/json"
        elif content_type == "application/x-www-form-urlencoded":
            pairs += _pairs(body)
    values: dict[str, Any] = {}
    for name, value in pairs:
        values.setdefault(name, value.replace("\r\n", "\n").replace("\r", "\n"))
    return Fields(values, as_json=False, hint=hint)


def _object(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadRequest("Invalid JSON format") from error
    if not isinstance(document, dict):
        raise BadRequest("Invalid JSON format")
    return document


def _pairs(encoded: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            encoded.decode("utf-8"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_FIELDS,
        )
    except UnicodeDecodeError as error:
        raise BadRequest("Invalid request: the parameters are not UTF-8") from error
    except ValueError as error:
        raise BadRequest(f"Invalid request: more than {_MOST_FIELDS} parameters") from error
