"""The OpenAPI document of the root app and the mounted dialects, and the route that serves it.

Routes document their own parameters and answers. Security requirements, answers of the middleware
and response headers are added here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from fastapi import FastAPI, Request, Response

from service.api.addresses import prefix_of_service
from service.api.draining import PROBES
from service.api.fields.schemas import answer_schemas
from service.api.responses import json_bytes

_OPEN = PROBES | {
    *("/languages", "/models", "/frontend/settings", "/download_file/{name}", "/listPairs"),
    *("/v3/translation_memories/upload", "/v3/translation_memories/download"),
}
"""Paths that never need a key."""
_ADMIN = ("/models/reload", "/admin/")
"""Beginnings of paths that always need the admin key."""

_SCHEMES = MappingProxyType(
    {
        "Bearer": {
            "type": "http",
            "scheme": "bearer",
            "description": "Any key or access token, on any path.",
        },
        "X-API-Key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
        "DeepL-Auth-Key": {
            "type": "apiKey",
            "in": "header",
            "name": "Authorization",
            "description": "`DeepL-Auth-Key` and the key, as DeepL's clients send it.",
        },
    }
)
_AROUND = MappingProxyType(
    {
        "408": "The body did not arrive in time.",
        "413": "The body is too large.",
        "500": "The service has a bug; its log has it under the id of the request.",
        "503": "The service is shutting down.",
    }
)
"""Answers of the middleware on any route; probes are served during shutdown."""

_HEADERS = MappingProxyType(
    {
        "Retry-After": {
            "description": "Seconds to wait before the next try.",
            "schema": {"type": "integer", "minimum": 0},
        },
        "X-Request-Id": {
            "description": "The request's own, if it sent one of letters, digits, `.`, `_`, `:` "
            "and `-`, else one made up. The log has it, too.",
            "schema": {"type": "string"},
        },
    }
)
_PASSING = frozenset({"429", "503"})


def add_document(
    app: FastAPI, dialects: Mapping[str, FastAPI], *, keys_required: bool, public_url: str = ""
) -> None:
    """Serve the document at ``/openapi.json``. It is built once, in a thread."""
    built: dict[str, bytes] = {}
    building = asyncio.Lock()

    def build(prefix: str) -> bytes:
        document = document_of(app, dialects, keys_required=keys_required)
        if prefix:
            document["servers"] = [{"url": prefix}]
        return json_bytes(document)

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi(request: Request) -> Response:
        prefix = prefix_of_service(request, public_url)
        async with building:
            if prefix not in built:
                built[prefix] = await asyncio.to_thread(build, prefix)
        return Response(built[prefix], media_type="application/json")


def document_of(
    app: FastAPI, dialects: Mapping[str, FastAPI], *, keys_required: bool
) -> dict[str, Any]:
    """Merge the documents of ``app`` and of each dialect, under its mount path."""
    document = FastAPI.openapi(app)
    for path, dialect in dialects.items():
        prefix = "v" + path.strip("/v") + "_"
        for below, item in FastAPI.openapi(dialect)["paths"].items():
            document["paths"][path + below] = {
                method: {**operation, "operationId": f"{prefix}{operation['operationId']}"}
                for method, operation in item.items()
            }
    document["components"] = {
        "schemas": dict(answer_schemas()),
        "securitySchemes": dict(_SCHEMES),
        "headers": dict(_HEADERS),
    }
    errors = {prefix: _errors_of(document, prefix) for prefix in ("", *dialects)}
    for path, operation in _operations(document):
        prefix = next((each for each in dialects if path.startswith(f"{each}/")), "")
        operation["security"] = _security(path, keys_required=keys_required)
        _answer_around(path, operation["responses"], errors[prefix])
    return document


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for operation in item.values():
            yield path, operation


def _errors_of(document: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Response content of errors below a path: that of the first documented 400."""
    for path, operation in _operations(document):
        if path.startswith(f"{prefix}/") and "400" in operation["responses"]:
            content: dict[str, Any] = operation["responses"]["400"]["content"]
            return content
    raise LookupError(f"no operation under {prefix}/ describes a refusal")


def _security(path: str, *, keys_required: bool) -> list[dict[str, list[str]]]:
    """Alternative security schemes of a path; an empty one means that no key is needed."""
    if path in _OPEN:
        return []
    any_key: list[dict[str, list[str]]] = [{name: []} for name in _SCHEMES]
    return any_key if keys_required or path.startswith(_ADMIN) else [{}, *any_key]


def _answer_around(path: str, responses: dict[str, Any], errors: dict[str, Any]) -> None:
    for status, description in _AROUND.items():
        if status not in responses and not (path in PROBES and status in ("408", "503")):
            responses[status] = {"description": description, "content": errors}
    for status, response in responses.items():
        names = ["X-Request-Id", *(["Retry-After"] if status in _PASSING else [])]
        # The time until a service is ready is unknown.
        if path in PROBES:
            names = names[:1]
        references = {name: {"$ref": f"#/components/headers/{name}"} for name in names}
        response["headers"] = {**response.get("headers", {}), **references}
