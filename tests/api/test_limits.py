"""Keys, rate limits, quotas and sizes, which hold for every request that works for its caller."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from service.settings import Settings
from service.translation.expected_wait import ExpectedWait
from service.translation.request_reader import RequestReader
from tests.api.answers import DE_EN, answered, refused
from tests.support.asgi import connected
from tests.support.keys import add_key

BODY = {"q": "zu ab", **DE_EN}
DEEPL = {"text": ["zu ab"], "source_lang": "DE", "target_lang": "EN-US"}
FILE = {"file": ("a.txt", b"Guten Morgen")}
LINK = "https://example.org/keys"
WORK: list[tuple[str, dict[str, Any], int]] = [
    ("/translate", BODY, 403),
    ("/translate", {**BODY, "stream": True}, 403),
    ("/translate", {**BODY, "confidence": True}, 403),
    ("/translate", {**BODY, "return_alternatives": True, "num_hypotheses": 2}, 403),
    ("/translate", {**BODY, "prefix": "ZU"}, 403),
    ("/alternatives", {**BODY, "position": 0}, 403),
    ("/v2/translate", DEEPL, 456),
]
"""Requests that translate five characters, and the status of a spent quota."""
KEPT = ("", "/attention", "/alignment", "/search")
"""Paths below that of a kept translation."""


def authorised(key: str) -> dict[str, str]:
    return {"authorization": f"DeepL-Auth-Key {key}"}


async def kept(client: httpx.AsyncClient, **headers: str) -> str:
    """The path of a kept translation of five characters."""
    asked = client.post("/translate", json={**BODY, "attention": True}, headers=headers)
    return f"/translations/{(await answered(asked))['id']}"


async def test_missing_or_wrong_key_is_refused_on_every_route(settings: Settings) -> None:
    routes: list[tuple[str, dict[str, Any]]] = [
        *((path, {"json": body}) for path, body, _ in WORK),
        ("/translate", {"data": {**BODY, "stream": "true"}}),
        ("/translate", {"params": BODY}),
        ("/detect", {"data": {"q": "a"}}),
        ("/sentences", {"json": BODY}),
        ("/suggest", {"data": {**BODY, "s": "A"}}),
        ("/translate_file", {"data": DE_EN, "files": FILE}),
        *((path, {"json": {}}) for path in ("/v2/usage", "/v2/glossaries", "/v3/glossaries")),
    ]
    await add_key(settings.state, "client", "right")
    changes = {"api_keys": "required", "suggestions": True, "api_key_link": LINK}
    async with connected(settings, **changes) as client:
        for path, sent in routes:
            missing = 403 if path.startswith("/v") else 400
            assert LINK in await refused(client.post(path, **sent), missing), path
            for wrong in (authorised("wrong"), {"x-api-key": "wrong"}):
                asked = client.post(path, **sent, headers=wrong)
                assert await refused(asked, 403) == "Invalid API key", path
        for sent in ({"json": {**BODY, "api_key": "wrong"}}, {"data": {**BODY, "api_key": "no"}}):
            assert await refused(client.post("/translate", **sent), 403) == "Invalid API key"
        assert (await client.get("/languages")).status_code == 200
        asked_for = (await client.get("/frontend/settings")).json()
        assert (asked_for["apiKeys"], asked_for["keyRequired"]) == (True, True)
        path = await kept(client, **authorised("right"))
        for end in KEPT:
            await refused(client.get(path + end), 400)
            await refused(client.get(path + end, headers=authorised("wrong")), 403)
            assert (await client.get(path + end, headers=authorised("right"))).status_code == 200


async def test_deepl_key_is_read_from_header_or_auth_key_field(settings: Settings) -> None:
    key = await add_key(settings.state, "client")
    async with connected(settings, api_keys="required") as client:
        for asked in (
            client.post("/v2/translate", json=DEEPL, headers=authorised(key)),
            client.post("/v2/translate", data={**DEEPL, "auth_key": key}),
            client.get("/v2/translate", params={**DEEPL, "auth_key": key}),
        ):
            assert (await asked).status_code == 200


async def test_requests_beyond_the_rate_limit_are_refused_with_retry_after(
    settings: Settings,
) -> None:
    workers = [
        await add_key(settings.state, f"worker{n}", requests_per_minute=1) for n in range(len(WORK))
    ]
    readers = [await add_key(settings.state, end, requests_per_minute=4) for end in "abcd"]
    async with connected(settings, api_keys="optional", requests_per_minute=1) as client:
        for (path, body, _), key in zip(WORK, workers, strict=True):
            for status in (200, 429):
                response = await client.post(path, json=body, headers=authorised(key))
                assert response.status_code == status, path
            assert int(response.headers["retry-after"]) > 0
        assert (await client.post("/translate", json=BODY)).status_code == 200
        assert (await refused(client.post("/translate", json=BODY), 429)).startswith("Slowdown: ")
        assert (await client.get("/languages")).status_code == 200
        for end, key in zip(KEPT, readers, strict=True):
            path = await kept(client, **authorised(key)) + end
            found = [await client.get(path, headers=authorised(key)) for _ in range(2)]
            usage = await answered(client.get("/v2/usage", headers=authorised(key)))
            assert usage["character_count"] == 5
            found.append(await client.get(path, headers=authorised(key)))
            assert [each.status_code for each in found] == [200, 200, 429]


async def test_quota_counts_the_text_and_no_failed_request(settings: Settings) -> None:
    keys = [
        await add_key(settings.state, f"client{n}", characters_per_month=9)
        for n in range(len(WORK))
    ]
    async with connected(settings, api_keys="optional") as client:
        for (path, body, spent), headers in zip(WORK, map(authorised, keys), strict=True):
            target = "target_lang" if "text" in body else "target"
            await refused(client.post(path, json={**body, target: "xx"}, headers=headers))
            assert (await client.post(path, json=body, headers=headers)).status_code == 200
            assert "uota" in await refused(client.post(path, json=body, headers=headers), spent)
            usage = await answered(client.get("/v2/usage", headers=headers))
            assert (usage["character_count"], usage["character_limit"]) == (5, 9)
        document = client.post("/v2/document", data=DEEPL, files=FILE, headers=headers)
        await refused(document, 456)


async def test_more_work_than_the_queue_takes_or_a_longer_text_is_refused(
    settings: Settings,
) -> None:
    async with connected(settings, max_queue_tokens=1) as client:
        for path, body, _ in WORK:
            await refused(client.post(path, json=body), 413)
    async with connected(settings, max_characters=4) as client:
        for path, body, _ in WORK:
            assert "text limit (4)" in await refused(client.post(path, json=body))


async def test_request_that_would_wait_too_long_is_refused_unread_and_uncounted(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ExpectedWait, "excess", lambda *_: 1.5)
    monkeypatch.setattr(RequestReader, "read", None)
    async with connected(settings, requests_per_minute=1) as client:
        for path, body, _ in WORK * 2:
            response = await client.post(path, json=body)
            assert response.status_code == 503, path
            assert int(response.headers["retry-after"]) >= 2


@pytest.mark.parametrize(("mode", "misses"), [("required", 2), ("optional", 1)])
async def test_result_of_one_key_does_not_speed_up_another_where_keys_are_required(
    settings: Settings, mode: str, misses: int
) -> None:
    callers = [authorised(await add_key(settings.state, name)) for name in ("me", "you")]
    async with connected(settings, api_keys=mode) as client:
        for headers in [*callers, *callers]:
            assert (await client.post("/translate", json=BODY, headers=headers)).is_success
        scrape = (await client.get("/metrics")).text
    found = [
        float(line.rpartition(" ")[2])
        for line in scrape.splitlines()
        if line.startswith("nmt_cache_lookups_total{") and '"miss"' in line and "de-en" in line
    ]
    assert found == [misses]
