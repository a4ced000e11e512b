"""Tests of the error statuses and messages of DeepL's dialect."""

from __future__ import annotations

import httpx
import pytest

from service.bootstrap import Service
from service.settings import Settings
from service.state.keys import KeyStore
from tests.api.answers import JSON, refused
from tests.api.deepl.conftest import authorised
from tests.support.asgi import client_of, connected

BODY = {"text": ["hallo"], "source_lang": "DE", "target_lang": "EN-US"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v2/rephrase", 404),
        ("POST", "/v2/translate/", 404),
        ("PUT", "/v2/translate", 405),
        ("GET", "/v3/style_rules", 404),
        ("GET", "/v2/glossaries/nonsense", 404),
        ("GET", "/v3/glossaries/9a3c1a5e-0000-4000-8000-000000000000", 404),
        ("POST", "/v2/document/nonsense", 400),
        ("POST", "/v2/document/nonsense?document_key=x", 404),
        ("POST", "/v2/translate", 400),
    ],
)
async def test_every_refusal_has_a_message_and_nothing_else(
    client: httpx.AsyncClient, method: str, path: str, status: int
) -> None:
    assert isinstance(await refused(client.request(method, path), status), str)


async def test_wrong_method_returns_405_with_all_allowed_methods(client: httpx.AsyncClient) -> None:
    for path, methods in (
        ("/v2/translate", "GET, HEAD, POST"),
        ("/v2/glossaries/x", "DELETE, GET, HEAD"),
        ("/v3/glossaries/x/dictionaries", "DELETE, PUT"),
    ):
        response = await client.request("OPTIONS", path)
        assert (response.status_code, response.headers["allow"]) == (405, methods)


@pytest.mark.parametrize(
    ("body", "headers", "problem"),
    [
        *((body, JSON, "JSON") for body in (b"[]", b"{", b'"text"', b"\xff", b"[" * 60_000)),
        (b'{"text": "\\ud800"', JSON, "JSON"),
        (b'{"text": ["\\ud800"], "source_lang": "DE", "target_lang": "EN"}', JSON, "surrogate"),
        (b'{"text": ["a"]}', {}, "content-type application/json"),
    ],
)
async def test_body_that_is_no_valid_json_object_is_refused(
    client: httpx.AsyncClient, body: bytes, headers: dict[str, str], problem: str
) -> None:
    asked = client.post("/v2/translate", content=body, headers=headers)
    assert problem in await refused(asked)


async def test_missing_or_wrong_key_returns_403_where_keys_are_required(settings: Settings) -> None:
    async with connected(settings, api_keys="required") as client:
        for headers in ({}, authorised("wrong"), {"authorization": "Basic YTpi"}):
            for path in ("/v2/translate", "/v2/glossaries", "/v3/glossaries"):
                assert "key" in await refused(client.post(path, json=BODY, headers=headers), 403)
            assert (await client.get("/v2/usage", headers=headers)).status_code == 403


async def test_key_is_read_from_header_or_auth_key_field(
    settings: Settings, keys: KeyStore
) -> None:
    key = await keys.add("client")
    async with connected(settings, api_keys="required") as client:
        answers = [
            await client.post("/v2/translate", json=BODY, headers=authorised(key)),
            await client.post("/v2/translate", data={**BODY, "auth_key": key}),
            await client.get("/v2/translate", params={**BODY, "auth_key": key}),
        ]
    assert [answer.status_code for answer in answers] == [200, 200, 200]


async def test_a_spent_quota_is_456(settings: Settings, keys: KeyStore) -> None:
    key = await keys.add("poor", characters_per_month=12)
    async with connected(settings, api_keys="required") as client:
        client.headers.update(authorised(key))
        assert (await client.post("/v2/translate", json=BODY)).status_code == 200
        usage = (await client.get("/v2/usage")).json()
        assert (usage["character_count"], usage["character_limit"]) == (5, 12)
        too_long = client.post("/v2/translate", json={**BODY, "text": ["hallo welt"]})
        assert "Quota" in await refused(too_long, 456)
        upload = await client.post(
            "/v2/document", data={"target_lang": "EN"}, files={"file": ("a.txt", b"Guten Morgen")}
        )
        assert upload.status_code == 456


async def test_rate_limit_returns_429_with_retry_after(settings: Settings) -> None:
    async with connected(settings, requests_per_minute=1) as client:
        assert (await client.post("/v2/translate", json=BODY)).status_code == 200
        refused = await client.post("/v2/translate", json=BODY)
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) > 0


async def test_a_deadline_that_has_passed_is_504(client: httpx.AsyncClient) -> None:
    headers = {"x-request-timeout": "0.000001"}
    late = client.post("/v2/translate", json=BODY, headers=headers)
    assert "seconds" in await refused(late, 504)


async def test_service_without_models_returns_503_with_retry_after(service: Service) -> None:
    await service.repository.close()
    async with client_of(service.app) as client:
        response = await client.post("/v2/translate", json=BODY)
    assert response.status_code == 503
    assert "retry-after" in response.headers


@pytest.mark.parametrize(("mode", "misses"), [("required", 2), ("optional", 1)])
async def test_result_of_one_key_does_not_speed_up_another_where_keys_are_required(
    settings: Settings, keys: KeyStore, mode: str, misses: int
) -> None:
    callers = [authorised(await keys.add(name)) for name in ("me", "you")]
    async with connected(settings, api_keys=mode) as client:
        for headers in [*callers, *callers]:
            answer = await client.post("/v2/translate", json=BODY, headers=headers)
            assert answer.status_code == 200
        scrape = (await client.get("/metrics")).text
    found = [
        float(line.rpartition(" ")[2])
        for line in scrape.splitlines()
        if line.startswith("nmt_cache_lookups_total{") and '"miss"' in line and "de-en" in line
    ]
    assert found == [misses]
