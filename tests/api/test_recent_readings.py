"""Repeated short requests are not read again, and are answered as if they were."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from service.api import recent_readings, short_path
from service.bootstrap import Service
from service.settings import Settings
from service.state.database import FILE_NAME, Database
from service.state.keys import KeyStore
from service.translation.plain import prepare_plain
from service.workers import front
from tests.support.asgi import connected
from tests.support.toy import put_bundle

DE_EN = {"source": "de", "target": "en"}
DEEPL = {"source_lang": "DE", "target_lang": "EN"}
VARYING_HEADERS = {"x-request-id", "x-total-time", "x-tokenization-time", "x-queue-time"}
KEY = "key-of-ann-0123456789"


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The requests that the short path has prepared."""
    requests: list[Any] = []

    async def recorded(request: Any, *others: Any) -> Any:
        requests.append(request)
        return await prepare_plain(request, *others)

    monkeypatch.setattr(short_path, "prepare_plain", recorded)
    yield requests


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/translate", {"q": ["ein wort. noch eins.", "zwei "], **DE_EN, "alternatives": 1}),
        ("/translate", {"q": "Das Wetter ist heute schön.", "source": "auto", "target": "en"}),
        ("/v2/translate", {"text": ["ein wort"], **DEEPL, "show_billed_characters": True}),
    ],
)
async def test_repeated_request_is_read_once_and_answered_alike(
    client: httpx.AsyncClient, prepared: list[Any], path: str, body: dict[str, Any]
) -> None:
    first, second = [await client.post(path, json=body) for _ in range(2)]
    assert (first.status_code, first.content) == (200, second.content)
    for name in first.headers.keys() - VARYING_HEADERS - {"x-inference-time"}:
        assert first.headers[name] == second.headers[name]
    assert len(prepared) == 1


async def test_same_body_on_another_path_is_another_request(
    client: httpx.AsyncClient, prepared: list[Any]
) -> None:
    body = {"q": "ab", **DE_EN, "text": ["cd"], **DEEPL}
    root = (await client.post("/translate", json=body)).json()
    deepl = (await client.post("/v2/translate", json=body)).json()
    assert (root["translatedText"], deepl["translations"][0]["text"]) == ("AB", "CD")


async def test_samples_are_drawn_anew(client: httpx.AsyncClient, prepared: list[Any]) -> None:
    body = {"q": "ab", **DE_EN, "sampling_topk": 5, "beam_size": 1}
    for _ in range(2):
        assert (await client.post("/translate", json=body)).status_code == 200
    assert len(prepared) == 2


async def test_long_requests_are_read_each_time(
    client: httpx.AsyncClient, prepared: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_readings, "_MOST_BYTES_EACH", 50)
    for text in ("ab", "ab", "wort " * 10, "wort " * 10):
        assert (await client.post("/translate", json={"q": text, **DE_EN})).status_code == 200
    assert len(prepared) == 3


async def test_least_recently_repeated_request_is_forgotten_first(
    settings: Settings, prepared: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "MOST_BYTES", 100)
    async with connected(settings) as client:
        for text in ("a", "b", "a", "c", "a", "b"):
            await client.post("/translate", json={"q": text, **DE_EN})
    assert [each.texts for each in prepared] == [("a",), ("b",), ("c",), ("b",)]


async def test_nothing_is_kept_where_no_results_are(
    settings: Settings, prepared: list[Any]
) -> None:
    async with connected(settings, result_megabytes=0) as client:
        for _ in range(2):
            await client.post("/translate", json={"q": "a", **DE_EN})
    assert len(prepared) == 2


async def test_each_caller_is_identified_and_charged(
    settings: Settings, prepared: list[Any]
) -> None:
    settings.state.mkdir()
    async with Database(settings.state / FILE_NAME) as database:
        await KeyStore(database).add("ann", KEY, characters_per_month=5)
    async with connected(settings, api_keys="optional") as client:

        async def status(key: str = "") -> int:
            headers = {"x-api-key": key} if key else {}
            body = {"q": "abc", **DE_EN}
            return (await client.post("/translate", json=body, headers=headers)).status_code

        assert [await status(), await status(KEY), await status("wrong-key")] == [200, 200, 403]
        assert [await status(KEY), await status()] == [403, 200]
        in_body = {"q": "abc", **DE_EN, "api_key": "wrong-key"}
        refused = [(await client.post("/translate", json=in_body)).status_code for _ in range(2)]
    assert refused == [403, 403]
    assert len(prepared) == 1


async def test_deadline_is_that_of_the_request(
    client: httpx.AsyncClient, service: Service, prepared: list[Any]
) -> None:
    body = {"q": "ab", **DE_EN, "sampling_topk": 1}
    assert (await client.post("/translate", json=body)).status_code == 200
    model = service.repository.catalogue.named("shout-de-en")
    model.results._kept.clear()
    with model.engine.gathering():
        late = await client.post("/translate", json=body, headers={"x-request-timeout": "0.05"})
    assert late.status_code == 504
    assert len(prepared) == 1


async def test_reload_forgets_readings_and_what_they_refer_to(
    client: httpx.AsyncClient, service: Service, settings: Settings, prepared: list[Any]
) -> None:
    body = {"q": "ab", **DE_EN}
    await client.post("/translate", json=body)
    retired = weakref.ref(service.repository.catalogue.named("shout-de-en").results)
    prepared.clear()
    put_bundle(settings.bundles, "shout-de-en", "de", "en", version="2")
    await service.reloader.reload()
    assert retired() is None
    answer = await client.post("/translate", json=body)
    assert answer.headers["x-model-version"] == "2"
    assert len(prepared) == 1


async def test_request_goes_to_another_model_once_an_engine_has_died(
    client: httpx.AsyncClient, service: Service, settings: Settings
) -> None:
    put_bundle(settings.bundles, "twin-de-en", "de", "en")
    await service.reloader.reload()
    body = {"q": "ab", **DE_EN}
    first = (await client.post("/translate", json=body)).json()["model"]
    await service.repository.catalogue.named(first).engine.close()
    second = await client.post("/translate", json=body)
    assert (second.status_code, first, second.json()["model"]) == (200, "shout-de-en", "twin-de-en")
