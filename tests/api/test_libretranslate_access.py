from __future__ import annotations

import pytest

from service.settings import Settings
from tests.api.answers import refused
from tests.support.asgi import connected

BODY = {"q": "a", "source": "de", "target": "en"}
FILE = {"file": ("a.txt", b"a")}
LINK = "https://example.org/keys"


async def test_missing_key_returns_400_on_every_route(settings: Settings) -> None:
    async with connected(
        settings, api_keys="required", suggestions=True, api_key_link=LINK
    ) as client:
        for path, sent in (
            ("/translate", {"json": BODY}),
            ("/translate", {"data": {**BODY, "stream": "true"}}),
            ("/detect", {"data": {"q": "a"}}),
            ("/suggest", {"data": {**BODY, "s": "A"}}),
            ("/translate_file", {"data": {"source": "de", "target": "en"}, "files": FILE}),
        ):
            message = await refused(client.post(path, **sent))  # type: ignore[arg-type]
            assert message == f"Visit {LINK} to get an API key"
        assert (await client.get("/languages")).status_code == 200
        asked = (await client.get("/frontend/settings")).json()
        assert (asked["apiKeys"], asked["keyRequired"]) == (True, True)


@pytest.mark.parametrize("shape", ["json", "data", "params"])
async def test_a_wrong_key_is_refused_in_every_shape(settings: Settings, shape: str) -> None:
    async with connected(settings, api_keys="optional") as client:
        wrong = client.post("/translate", **{shape: {**BODY, "api_key": "wrong"}})
        assert await refused(wrong, 403) == "Invalid API key"
        assert (await client.post("/translate", json=BODY)).status_code == 200
        empty = await client.post("/translate", json={**BODY, "api_key": ""})
        assert empty.status_code == 200


async def test_rate_limit_returns_429_with_retry_after(settings: Settings) -> None:
    async with connected(settings, requests_per_minute=1) as client:
        assert (await client.post("/translate", json=BODY)).status_code == 200
        for body in (BODY, {**BODY, "stream": True}):
            response = await client.post("/translate", json=body)
            assert response.status_code == 429
            assert response.json()["error"].startswith("Slowdown: ")
            assert int(response.headers["retry-after"]) > 0
        assert (await client.get("/languages")).status_code == 200
