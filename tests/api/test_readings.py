"""Readings that are kept for later requests with the same body."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

from starlette.requests import Request

from service.api.fields.parameters import ROOT
from service.api.readings import Reading, Readings


def request(body: bytes) -> Request:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    headers = [(b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "headers": headers, "query_string": b""}
    return Request(scope, receive)


async def test_equal_requests_at_the_same_time_take_the_space_of_one() -> None:
    parsed: list[Any] = []

    async def parse(fields: Any, *_: object) -> Reading[None]:
        parsed.append(fields)
        return Reading(None, None, cast(Any, None), "interactive")

    models = SimpleNamespace(catalogue=type("Catalogue", (), {})())
    readings = Readings(models, lambda *_: asyncio.sleep(0, cast(Any, None)), 200)
    for number in range(20):
        body = json.dumps({"q": f"a text, number {number:2}"}).encode()
        await asyncio.gather(*(readings.read(request(body), ROOT, parse) for _ in range(2)))
        before = len(parsed)
        await readings.read(request(body), ROOT, parse)
        assert len(parsed) == before
