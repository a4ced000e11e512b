"""One OpenAPI document for the root and the dialects that are mounted beside it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI

_REFERENCE = re.compile(r'"#/components/schemas/')


def document_of(app: FastAPI, dialects: Mapping[str, FastAPI]) -> dict[str, Any]:
    """What ``app`` says of itself, and what each dialect does, under the path it is mounted at."""
    document: dict[str, Any] = json.loads(json.dumps(FastAPI.openapi(app)))
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
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
    return document
