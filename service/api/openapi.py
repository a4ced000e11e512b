"""One OpenAPI document for the root and the dialects that are mounted beside it.

Routes say what they take and answer. What is true of all of them is added here: who needs a key,
what the layers around the routes may answer, and which headers come with that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from fastapi import FastAPI

from service.api.draining import PROBES
from service.api.links import add_links

_REFERENCE = re.compile(r'"#/components/schemas/')

_OPEN = PROBES | {"/languages", "/models", "/frontend/settings", "/download_file/{name}"}
"""Paths that need no key, whatever the operator decides."""
_ADMIN = frozenset({"/models/reload"})
"""Paths that need the operator's key, always."""

_SCHEMES = MappingProxyType(
    {
        "Bearer": {"type": "http", "scheme": "bearer", "description": "Any key, on any path."},
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
"""What may be answered around any route; probes are answered while the service shuts down."""

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


def document_of(
    app: FastAPI, dialects: Mapping[str, FastAPI], *, keys_required: bool
) -> dict[str, Any]:
    """What ``app`` says of itself, and what each dialect does, under the path it is mounted at."""
    document: dict[str, Any] = json.loads(json.dumps(FastAPI.openapi(app)))
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for path, dialect in dialects.items():
        # Two apps may call different things by one name.
        prefix = dialect.title.replace(" ", "").replace(":", "") + "-"
        text = json.dumps(FastAPI.openapi(dialect))
        own = json.loads(_REFERENCE.sub(f'"#/components/schemas/{prefix}', text))
        for name, schema in own.get("components", {}).get("schemas", {}).items():
            schemas[prefix + name] = schema
        for below, item in own["paths"].items():
            document["paths"][path + below] = {
                method: {**operation, "operationId": f"{prefix}{operation['operationId']}"}
                for method, operation in item.items()
            }
    components["securitySchemes"] = dict(_SCHEMES)
    components["headers"] = dict(_HEADERS)
    errors = {prefix: _errors_of(document, prefix) for prefix in ("", *dialects)}
    for path, operation in _operations(document):
        prefix = next((each for each in dialects if path.startswith(f"{each}/")), "")
        operation["security"] = _security(path, keys_required=keys_required)
        _answer_around(path, operation["responses"], errors[prefix])
    add_links(document)
    return document


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for operation in item.values():
            yield path, operation


def _errors_of(document: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The content of refusals below a path: that of the first which is described there."""
    for path, operation in _operations(document):
        if path.startswith(f"{prefix}/") and "400" in operation["responses"]:
            content: dict[str, Any] = operation["responses"]["400"]["content"]
            return content
    raise LookupError(f"no operation under {prefix}/ describes a refusal")


def _security(path: str, *, keys_required: bool) -> list[dict[str, list[str]]]:
    """The ways to show a key, any of which will do; the empty one is none at all."""
    if path in _OPEN:
        return []
    any_key: list[dict[str, list[str]]] = [{name: []} for name in _SCHEMES]
    return any_key if keys_required or path in _ADMIN else [{}, *any_key]


def _answer_around(path: str, responses: dict[str, Any], errors: dict[str, Any]) -> None:
    for status, description in _AROUND.items():
        if status not in responses and not (path in PROBES and status in ("408", "503")):
            responses[status] = {"description": description, "content": errors}
    for status, response in responses.items():
        names = ["X-Request-Id", *(["Retry-After"] if status in _PASSING else [])]
        # Of a service that is not ready, nobody knows when it will be.
        if path in PROBES:
            names = names[:1]
        told = {name: {"$ref": f"#/components/headers/{name}"} for name in names}
        response["headers"] = {**response.get("headers", {}), **told}
