from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest
from fastapi import FastAPI, HTTPException, Request

from service.api.operations import create_router
from service.bootstrap import Service, build, running
from service.catalogue.loaded_model import LoadedModel
from service.loading.loader import ModelObserver
from service.settings import Settings
from tests.api.answers import DE_EN
from tests.support.asgi import client_of
from tests.support.books import Books, read_books
from tests.support.toy import BROKEN, load_shouting, put_broken_bundle, put_bundle

OFFERED = ["shout-de-en", "shout-en-de", "shout-fr-en"]


async def samples(client: httpx.AsyncClient) -> Books:
    response = await client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    return read_books(response.text)


async def shown_ready(client: httpx.AsyncClient) -> float:
    return (await samples(client))["nmt_ready", ()]


async def refused_readiness(client: httpx.AsyncClient) -> dict[str, Any]:
    """The readiness answer of a service that is not ready, with its reasons."""
    response = await client.get("/readyz")
    assert response.status_code == 503
    assert await shown_ready(client) == 0
    return dict(response.json())


async def test_probes_say_that_the_service_lives_and_why_it_is_not_ready(
    service: Service, client: httpx.AsyncClient
) -> None:
    for path in ("/health", "/livez"):
        response = await client.request("GET", path, json={})
        assert (response.status_code, response.json()) == (200, {"status": "ok"})
    response = await client.get("/readyz")
    assert response.status_code == 200
    assert response.json() == {
        "status": "ready",
        "reasons": [],
        "models": OFFERED,
        "failed": {"broken": BROKEN},
        "devices": {name: ["cpu"] for name in OFFERED},
    }
    engines = [model.engine for model in service.repository.catalogue.models]
    assert all(engine.alive for engine in engines)
    await engines[0].close()
    assert (await refused_readiness(client))["reasons"] == ["model shout-de-en has stopped"]
    service.drain.begin()
    readiness = await refused_readiness(client)
    assert (readiness["status"], readiness["models"]) == ("draining", OFFERED)
    assert (await client.get("/livez")).status_code == 200
    for path, field in (("/translate", "error"), ("/v2/translate", "message")):
        refused = await client.post(path, json={})
        assert refused.status_code == 503
        assert refused.json() == {field: "the service is shutting down; try again"}
    await service.repository.close()
    assert not any(engine.alive for engine in engines)


async def test_the_service_answers_while_it_loads(settings: Settings) -> None:
    gate = asyncio.Event()

    async def load(
        path: Path, settings: Settings, observer_for: Callable[[str], ModelObserver]
    ) -> LoadedModel:
        await gate.wait()
        return await load_shouting(path, settings, observer_for)

    service = build(settings, load)
    async with service.app.router.lifespan_context(service.app), client_of(service.app) as client:
        assert (await client.get("/livez")).status_code == 200
        assert (await refused_readiness(client))["reasons"] == ["the models are being loaded"]
        refused = await client.post("/translate", json={"q": "a", **DE_EN})
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
        assert (await client.get("/models")).json() == {"models": [], "failed": {}}
        gate.set()
        await service.loaded.wait()
        assert (await client.get("/readyz")).status_code == 200
        assert await shown_ready(client) == 1


async def test_a_service_may_stop_while_it_loads_and_names_missing_bundles(
    settings: Settings, tmp_path: Path
) -> None:
    async def load(*_: object) -> LoadedModel:
        await asyncio.sleep(60)
        raise AssertionError

    service = build(settings, load)
    async with asyncio.timeout(5), service.app.router.lifespan_context(service.app):
        await asyncio.sleep(0)
    (tmp_path / "empty").mkdir()
    empty = Settings(bundles=tmp_path / "empty")
    async with running(empty, load_shouting) as service, client_of(service.app) as client:
        reasons = [
            "no model is on offer: there is no bundle; its operator adds one with "
            "`dragoman models add de-en`"
        ]
        assert (await refused_readiness(client))["reasons"] == reasons
        assert (await client.get("/languages")).status_code == 503


async def test_clients_see_no_directories_and_the_log_has_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put_broken_bundle(tmp_path, "broken")
    async with running(Settings(bundles=tmp_path)) as service, client_of(service.app) as client:
        answers = [await client.get(path) for path in ("/languages", "/readyz", "/models")]
        answers.append(await client.post("/translate", json={"q": "a", **DE_EN}))
        asked = {"text": ["a"], "target_lang": "DE"}
        answers.append(await client.post("/v2/translate", json=asked))
        shutil.rmtree(tmp_path)
        await service.repository.reload()
        unlisted = (await client.get("/readyz")).json()["failed"]
    for answer in answers:
        assert "broken/manifest.json" in answer.text
        assert str(tmp_path) not in answer.text
    assert unlisted == {tmp_path.name: "No such file or directory"}
    assert sum(str(tmp_path) in line for line in caplog.messages) == 2


async def test_models_are_listed_with_their_metadata(client: httpx.AsyncClient) -> None:
    answer = (await client.get("/models")).json()
    assert [model["name"] for model in answer["models"]] == OFFERED
    assert answer["failed"].keys() == {"broken"}
    model = answer["models"][0]
    assert model["directions"] == [{"source": "de", "target": "en"}]
    assert model["precision"] == "int8"
    assert model["precisions"] == ["fp32", "int8"]
    assert model["scores"][0]["metric"] == "BLEU"
    assert model["data"] == [{"name": "digits", "licence": "CC0-1.0", "pairs": 4}]


async def test_reload_requires_admin_and_updates_models(
    service: Service, settings: Settings
) -> None:
    async def authorize(request: Request) -> None:
        if request.headers.get("authorization") != "Bearer right":
            raise HTTPException(403)

    app = FastAPI()
    reload = service.reloader.reload
    app.include_router(
        create_router(
            *(service.repository, service.metrics, service.drain),
            *(reload, authorize, AsyncMock(return_value=None)),
        )
    )
    put_bundle(settings.bundles, "broken", "nl", "en")
    put_bundle(settings.bundles, "bad", "nl", "de")
    put_broken_bundle(settings.bundles, "bad")
    shutil.rmtree(settings.bundles / "shout-fr-en")
    async with client_of(app) as client:
        assert (await client.post("/models/reload")).status_code == 403
        assert (await client.get("/models/reload")).status_code == 405
        response = await client.post("/models/reload", headers={"authorization": "Bearer right"})
    answer = response.json()
    assert response.status_code == 200
    assert [model["name"] for model in answer["models"]] == ["broken", *OFFERED[:2]]
    assert answer["failed"] == {"bad": BROKEN}
    assert (answer["loaded"], answer["retired"]) == (["broken"], ["shout-fr-en"])


async def test_metrics_count_the_requests_of_one_service_by_outcome(
    client: httpx.AsyncClient, settings: Settings
) -> None:
    await client.post("/translate", json={"q": "hallo", **DE_EN})
    await client.post("/translate", json={"q": "hallo", "source": "zz", "target": "en"})
    await client.get("/nowhere")
    found = await samples(client)
    total = "nmt_requests_total"
    assert found[total, ("shout-de-en", "ok", "/translate")] == 1
    assert found[total, ("", "invalid", "/translate")] == 1
    assert found[total, ("", "invalid", "other")] == 1
    assert found["nmt_request_failures_total", ("validation",)] == 1
    assert found["nmt_request_failures_total", ("unknown_path",)] == 1
    assert found["nmt_characters_total", ("shout-de-en",)] == 5
    assert found["nmt_tokenize_duration_seconds_count", ("shout-de-en",)] == 1
    async with running(settings, load_shouting) as other, client_of(other.app) as elsewhere:
        key = "nmt_characters_total", ("shout-de-en",)
        assert key in found
        assert key not in await samples(elsewhere)
