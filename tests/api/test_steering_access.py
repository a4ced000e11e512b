"""Keys, rate limits, quotas and sizes of requests that steer or score a translation."""

from __future__ import annotations

from typing import Any

import pytest

from service.settings import Settings
from tests.api.answers import DE_EN, refused
from tests.support.asgi import connected
from tests.support.keys import add_key

REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("/alternatives", {"q": "zu ab", "position": 0, **DE_EN}),
    ("/translate", {"q": "zu ab", "confidence": True, **DE_EN}),
    ("/translate", {"q": "zu ab", "return_alternatives": True, "num_hypotheses": 2, **DE_EN}),
    ("/translate", {"q": "zu ab", "prefix": "ZU", **DE_EN}),
]
steered = pytest.mark.parametrize(
    ("path", "body"), REQUESTS, ids=["alternatives", "confidence", "tokens", "prefix"]
)


@steered
async def test_required_key_is_required(
    settings: Settings, path: str, body: dict[str, Any]
) -> None:
    async with connected(settings, api_keys="required") as client:
        assert "API key" in await refused(client.post(path, json=body))
        wrong = client.post(path, json={**body, "api_key": "wrong"})
        assert await refused(wrong, 403) == "Invalid API key"


@steered
async def test_rate_limit_counts_them(settings: Settings, path: str, body: dict[str, Any]) -> None:
    async with connected(settings, requests_per_minute=1) as client:
        assert (await client.post(path, json=body)).status_code == 200
        response = await client.post(path, json=body)
        assert response.status_code == 429
        assert int(response.headers["retry-after"]) > 0


@steered
async def test_quota_counts_the_text_and_no_failed_request(
    settings: Settings, path: str, body: dict[str, Any]
) -> None:
    key = await add_key(settings.state, "client", characters_per_month=9)
    body = {**body, "api_key": key}
    async with connected(settings, api_keys="optional") as client:
        refused = await client.post(path, json={**body, "target": "xx"})
        assert refused.status_code == 400
        assert (await client.post(path, json=body)).status_code == 200
        response = await client.post(path, json=body)
        assert response.status_code == 403, response.text


@steered
async def test_more_work_than_the_queue_takes_is_refused(
    settings: Settings, path: str, body: dict[str, Any]
) -> None:
    async with connected(settings, max_queue_tokens=1) as client:
        assert (await client.post(path, json=body)).status_code == 413


@steered
async def test_oversized_text_is_refused(
    settings: Settings, path: str, body: dict[str, Any]
) -> None:
    async with connected(settings, max_characters=4) as client:
        assert "exceeds text limit (4)" in await refused(client.post(path, json=body))
