"""Models that are loaded by their first request and unloaded when idle, over HTTP."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from models.bundle.bundle import Bundle, read_manifest
from service.bootstrap import Service, running
from service.catalogue.loaded_model import LoadedModel
from service.loading.loader import ObserverFor, load_model
from service.loading.tokenizers import OnDemandTokenizers, TokenizerCache
from service.observability.metrics import Metrics
from service.settings import Settings
from service.workers.owner_link import socket_beside
from tests.support.asgi import client_of
from tests.support.cycles import without_cycles
from tests.support.fronts import worker_of
from tests.support.networks import NETWORKS, random_network, write_bundle
from tests.support.worker_processes import owned

PAIRS = ("de-en", "en-fr", "fr-es")


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("originals")
    for pair in PAIRS:
        source, target = pair.split("-")
        network = random_network(NETWORKS["ssru"])
        write_bundle(network, directory / pair, ("int8",), pair, source, target)
    return directory


class Counted:
    """``load_model`` that records its calls and waits for a gate."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(
        self, path: Path, settings: Settings, observer_for: ObserverFor
    ) -> LoadedModel:
        self.calls.append(path.name)
        await self.gate.wait()
        return await load_model(path, settings, observer_for)


class Served:
    def __init__(self, service: Service, client: httpx.AsyncClient, loads: Counted) -> None:
        self.service, self.client, self.loads = service, client, loads

    async def ask(self, pair: str, text: str = "w5 w6 w7") -> httpx.Response:
        source, target = pair.split("-")
        body = {"q": text, "source": source, "target": target}
        return await self.client.post("/translate", json=body)

    async def send(self, pair: str, document: bytes) -> httpx.Response:
        source, target = pair.split("-")
        options = {"source": source, "target": target}
        file = {"file": ("words.txt", document)}
        return await self.client.post("/translate_file", data=options, files=file)

    def value(self, name: str, pair: str) -> float:
        return self.service.metrics.registry.get_sample_value(name, {"model": pair}) or 0.0

    def resident(self) -> list[str]:
        return [pair for pair in PAIRS if self.value("nmt_model_resident_bytes", pair)]


def settings_of(directory: Path, **changed: object) -> Settings:
    fields = {"bundles": directory, "model_megabytes": 1024, "device": "cpu", "threads": 1}
    return Settings.model_validate({**fields, "state": directory / ".state", **changed})


@pytest.fixture
def bundles(originals: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(originals, tmp_path / "bundles"))


@asynccontextmanager
async def serving(bundles: Path, most: int = 3) -> AsyncIterator[Served]:
    """A service with memory for ``most`` models: each counts as one megabyte."""
    loads = Counted()
    settings = settings_of(bundles, model_megabytes=most, reload_seconds=0)
    with pytest.MonkeyPatch.context() as patch:
        grown = iter(range(0, 1 << 30, 1 << 20))
        patch.setattr("service.bootstrap.resident_bytes", lambda: next(grown))
        patch.setattr("service.catalogue.residency.GROWTH_PER_BYTE", 1.0)
        async with running(settings, loads) as service, client_of(service.app) as client:
            yield Served(service, client, loads)


async def test_bundles_are_listed_at_start_and_loaded_once_by_their_first_requests(
    bundles: Path,
) -> None:
    async with serving(bundles) as served:
        listed = (await served.client.get("/models")).json()["models"]
        assert [model["name"] for model in listed] == list(PAIRS)
        assert (await served.client.get("/readyz")).status_code == 200
        codes = {each["code"] for each in (await served.client.get("/languages")).json()}
        assert (codes, served.loads.calls) == ({"de", "en", "fr", "es"}, [])
        answers = await asyncio.gather(*(served.ask("de-en", f"w{n} w5") for n in range(4, 9)))
        assert {answer.status_code for answer in answers} == {200}
        assert (served.loads.calls, served.resident()) == (["de-en"], ["de-en"])


async def test_pivot_and_attention_of_given_texts_load_what_they_need(bundles: Path) -> None:
    async with serving(bundles) as served:
        assert (await served.ask("de-fr")).status_code == 200
        assert served.loads.calls == ["de-en", "en-fr"]
        pair = {"source_text": "w5 w6", "target_text": "w7", "source": "fr", "target": "es"}
        assert (await served.client.post("/attention", json=pair)).status_code == 200
        assert served.loads.calls == ["de-en", "en-fr", "fr-es"]


async def test_least_recently_used_idle_model_is_unloaded_and_loaded_again(bundles: Path) -> None:
    async with serving(bundles, most=2) as served:
        for pair in ("de-en", "en-fr", "de-en", "fr-es"):
            # Another text than before, because recent results need no model.
            assert (await served.ask(pair, f"w{len(served.loads.calls) + 4}")).status_code == 200
        assert served.resident() == ["de-en", "fr-es"]
        assert served.value("nmt_model_evictions_total", "en-fr") == 1
        assert (await served.ask("en-fr", "w9 w8")).status_code == 200
        assert served.resident() == ["en-fr", "fr-es"]
        assert served.value("nmt_model_load_duration_seconds_count", "en-fr") == 2


async def test_model_in_use_is_kept_and_others_and_documents_wait_for_its_memory(
    bundles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(bundles, most=1) as served:
        assert (await served.ask("de-en")).status_code == 200
        model = next(m for m in served.service.repository.catalogue.models if m.name == "de-en")
        with model.engine.gathering():
            decoding = asyncio.create_task(served.ask("de-en", "w8 w9"))
            while not model.engine._wanted.uses:  # type: ignore[attr-defined]
                await asyncio.sleep(0.001)
            monkeypatch.setattr("service.catalogue.residency.ROOM_SECONDS", 0.05)
            document = asyncio.create_task(served.send("en-fr", b"w4 w5"))
            refused = await served.ask("en-fr")
            assert (refused.status_code, "retry-after" in refused.headers) == (503, True)
            monkeypatch.undo()
            waiting = asyncio.create_task(served.ask("en-fr"))
            await asyncio.sleep(0.05)
            assert (served.resident(), served.loads.calls) == (["de-en"], ["de-en"])
            assert not document.done()
        assert {(await each).status_code for each in (decoding, waiting, document)} == {200}
        assert served.resident() == ["en-fr"]


async def test_bundle_that_cannot_fit_is_not_offered(bundles: Path) -> None:
    manifest = bundles / "de-en" / "manifest.json"
    content = json.loads(manifest.read_text())
    content["files"]["weights.int8.bin"]["size"] = 4 << 20
    manifest.write_text(json.dumps(content))
    async with serving(bundles, most=3) as served:
        models = {model.name for model in served.service.repository.catalogue.models}
        assert (models, [*served.service.repository.failed]) == ({"en-fr", "fr-es"}, ["de-en"])


async def test_failed_load_answers_its_reason_and_is_retried_later(
    bundles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = bundles / "de-en" / "weights.int8.bin"
    content = weights.read_bytes()
    async with serving(bundles) as served:
        weights.unlink()
        for _ in range(2):
            answer = await served.ask("de-en")
            assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
            assert "de-en lacks weights.int8.bin" in answer.json()["error"]
            assert str(bundles) not in answer.json()["error"]
        assert served.loads.calls == ["de-en"]
        assert served.value("nmt_model_load_failures_total", "de-en") == 1
        assert (await served.ask("en-fr")).status_code == 200
        weights.write_bytes(content)
        monkeypatch.setattr("service.catalogue.residency.time.monotonic", lambda: 1e12)
        assert (await served.ask("de-en")).status_code == 200


async def test_reload_lists_added_bundles_and_closes_removed_ones(bundles: Path) -> None:
    away = bundles.with_name("away")
    (bundles / "fr-es").rename(away)
    async with serving(bundles) as served:
        assert (await served.ask("de-en")).status_code == 200
        away.rename(bundles / "fr-es")
        shutil.rmtree(bundles / "de-en")
        done = await served.service.reloader.reload()
        assert (done.loaded, done.retired) == (("fr-es",), ("de-en",))
        assert served.resident() == []
        assert (await served.ask("fr-es")).status_code == 200


async def test_cancelled_first_request_does_not_stop_the_load_of_others(bundles: Path) -> None:
    async with serving(bundles) as served:
        served.loads.gate.clear()
        first = asyncio.create_task(served.ask("de-en", "w4"))
        second = asyncio.create_task(served.ask("de-en", "w5"))
        while not served.loads.calls:
            await asyncio.sleep(0.001)
        first.cancel()
        served.loads.gate.set()
        assert (await second).status_code == 200
        assert served.loads.calls == ["de-en"]


async def test_service_that_stops_during_a_load_closes_what_was_loaded(bundles: Path) -> None:
    async with serving(bundles) as served:
        served.loads.gate.clear()
        waiting = asyncio.create_task(served.ask("de-en"))
        while not served.loads.calls:
            await asyncio.sleep(0.001)
        await served.service.repository.close()
        assert (await waiting).status_code == 503


async def test_workers_open_tokenizers_of_models_that_they_read_texts_for(bundles: Path) -> None:
    settings, owner = settings_of(bundles), bundles / ".owner"
    async with (
        running(settings, decode_socket=socket_beside(owner)) as service,
        owned(service.app, owner),
        worker_of(settings, owner, open_model=None) as (_, client),
    ):
        body = {"q": "w5 w6 w7", "source": "de", "target": "fr"}
        assert (await client.post("/translate", json=body)).status_code == 200
        assert len((await client.get("/models")).json()["models"]) == len(PAIRS)


async def test_only_the_tokenizers_used_last_and_those_of_loaded_models_stay_open(
    bundles: Path,
) -> None:
    cache = TokenizerCache(most=1)
    first, second, loaded = (
        OnDemandTokenizers(bundles / pair, read_manifest(bundles / pair), cache) for pair in PAIRS
    )
    own = Bundle.open(bundles / PAIRS[2]).tokenizers()
    loaded.loaded(own)
    for each in (first, second, loaded):
        await each.prepare()
    assert (first._opened, second._opened is None, loaded.source) == (None, False, own.source)
    assert first.source.encode("w5 w6") == own.source.encode("w5 w6")
    assert (first._opened is None, second._opened) == (False, None)


async def test_closed_model_is_freed_without_the_garbage_collector(bundles: Path) -> None:
    settings, observer = settings_of(bundles), Metrics().observer
    path = bundles / "de-en"
    await (await load_model(path, settings, observer)).close()
    with without_cycles():
        await (await load_model(path, settings, observer)).close()
