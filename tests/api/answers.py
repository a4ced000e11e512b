"""JSON documents of requests and answers, and checks that an answer is one or a refusal."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Iterator
from typing import Any

import httpx

DE_EN = {"source": "de", "target": "en"}
JSON = {"content-type": "application/json"}


def as_ascii_json(body: object) -> dict[str, Any]:
    """Arguments of a request with this body. ASCII can escape lone surrogates, unlike httpx."""
    return {"content": json.dumps(body), "headers": JSON}


async def answered(asked: Awaitable[httpx.Response]) -> Any:
    """The document of an answer with status 200."""
    response = await asked
    assert response.status_code == 200, response.text
    return response.json()


async def refused(asked: Awaitable[httpx.Response], status: int = 400) -> str:
    """The message of a refusal, which is the only field of its document in either dialect."""
    response = await asked
    assert response.status_code == status, response.text
    field = "message" if re.match("/v[23]/", response.request.url.path) else "error"
    assert response.json().keys() == {field}
    message: str = response.json()[field]
    return message


def parts_of(part: Any) -> Iterator[dict[str, Any]]:
    """Every object within a JSON document or a part of it."""
    if isinstance(part, dict):
        yield part
        part = list(part.values())
    if isinstance(part, list):
        for each in part:
            yield from parts_of(each)
