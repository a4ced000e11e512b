"""JSON responses, and documented error responses of the root app."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from types import MappingProxyType
from typing import Any

from fastapi.responses import JSONResponse, Response
from pydantic import Field

from service.api.errors import headers_of, message_of, refusal_of
from service.api.schemas import Answer, answer_of


class Json(JSONResponse):
    """Compact UTF-8 JSON of an ``Answer``, a list of them, or a JSON-serialisable value.

    A lone surrogate, echoed from a request, is escaped.
    """

    def render(self, content: Any) -> bytes:
        return json_bytes(content)


def json_bytes(content: Any) -> bytes:
    """Compact JSON on one line, encoded as by ``Json``."""
    return _encoder.encode(content).encode("utf-8", "backslashreplace")


async def long_list(name: str, items: Iterable[Answer], **before: Any) -> Response:
    """A response like ``Json`` of an object with the fields ``before``, and ``items`` as ``name``.

    A thread takes and serialises the items one by one. One dump of all items would hold the
    interpreter lock until it returns, and so would the garbage collection of their objects.
    """
    content = await asyncio.to_thread(_list_json, name, items, before)
    return Response(content, media_type=Json.media_type)


def _list_json(name: str, items: Iterable[Answer], before: dict[str, Any]) -> bytes:
    head = json_bytes({**before, name: []}).removesuffix(b"]}")
    return b"%b%b]}" % (head, b",".join(map(json_bytes, items)))


def _dumped(answer: object) -> dict[str, Any]:
    if not isinstance(answer, Answer):
        raise TypeError(f"{type(answer).__name__} is no answer")
    return answer.model_dump(exclude_unset=True)


_encoder = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_dumped
)


class ErrorAnswer(Answer):
    error: str = Field(examples=["zz is not supported"])


_DEEPL = ("/v2/", "/v3/")


def error_body_for(path: str, message: str) -> dict[str, str]:
    """Body of an error on ``path`` that is raised outside of every dialect."""
    return {"message": message} if path.startswith(_DEEPL) else error_body(message)


def error_body(message: str) -> dict[str, str]:
    """Body of an error of the root app, in LibreTranslate's shape."""
    return {"error": message}


def refused(error: Exception) -> Response:
    """Answer of the root app to an expected error."""
    return Json(error_body(message_of(error)), refusal_of(error).status, headers=headers_of(error))


_REASONS = MappingProxyType(
    {
        400: "A field is missing or not what it should be, or a key is needed.",
        403: "The key is wrong, its quota is spent, or the operator has switched this off.",
        404: "Unknown path, model, document or translation, or one that has been removed.",
        410: "The model of this translation has been replaced.",
        413: "The body, the text or a word in it is too large.",
        429: "More requests than this caller may send in a minute.",
        500: "The model failed, or the service has a bug.",
        503: "The service is full, has no model yet, or is shutting down.",
        504: "The request was not done in the time it had.",
    }
)


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The ``responses`` of a route that may be answered with these statuses."""
    return {s: {"description": _REASONS[s], **answer_of(ErrorAnswer)} for s in statuses}
