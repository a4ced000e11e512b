"""The front of a worker and the owner that decodes for it, connected by a socket."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from models.bundle.manifest import InvalidBundle
from models.bundle.tokenizer import UnknownToken
from service.api.draining import Drain
from service.bootstrap import Service, running
from service.settings import Settings
from service.state.database import FILE_NAME, Database
from service.state.keys import KeyStore
from service.translation.loaded_model import LoadedModel
from service.workers import owner_link
from service.workers.decode_messages import (
    Cancel,
    Decode,
    FromWorker,
    OfferedModel,
    socket_beside,
)
from tests.support.books import accepted, assert_no_sentence_is_left, outcomes, read_books
from tests.support.fronts import PASSED_ON, front_of, open_shouting, taken
from tests.support.toy import UNK, Both, ByteTokenizer, load_shouting, put_bundle

PLAIN = {"q": ["ein wort. noch eins.", "zwei"], "source": "de", "target": "en"}

WAIT_SECONDS = 10.0
"""After which a test that has failed lets its threads end."""


@pytest.fixture
def owner(tmp_path: Path) -> Path:
    return tmp_path / "owner"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    put_bundle(tmp_path / "bundles", "shout-de-en", "de", "en")
    put_bundle(tmp_path / "bundles", "shout-en-fr", "en", "fr")
    return Settings(
        bundles=tmp_path / "bundles", state=tmp_path / "state", slots=8, reload_seconds=0
    )


@pytest.fixture
async def service(settings: Settings, owner: Path) -> AsyncIterator[Service]:
    async with running(settings, load_shouting, socket_beside(owner)) as service:
        yield service


@pytest.fixture
async def client(
    service: Service, settings: Settings, owner: Path
) -> AsyncIterator[httpx.AsyncClient]:
    async with front_of(settings, owner) as client:
        yield client


def model_of(service: Service, name: str) -> LoadedModel:
    return service.repository.catalogue.named(name)


def asked_directly(service: Service) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(service.app), base_url="http://owner")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/translate", PLAIN),
        ("/translate", PLAIN | {"alternatives": 2, "return_scores": True}),
        ("/translate", PLAIN | {"source": "auto", "q": "Das Wetter ist heute schön."}),
        ("/v2/translate", {"text": ["ab 12."], "source_lang": "DE", "target_lang": "EN"}),
    ],
)
async def test_front_answers_plain_requests_as_the_owner_would(
    client: httpx.AsyncClient, service: Service, path: str, body: dict[str, Any]
) -> None:
    async with asked_directly(service) as direct:
        expected = await direct.post(path, json=body)
    response = await client.post(path, json=body)
    assert (response.status_code, response.json()) == (200, expected.json())
    assert dict(response.headers).keys() == dict(expected.headers).keys()


@pytest.mark.parametrize(
    "body",
    [
        PLAIN | {"format": "html"},
        PLAIN | {"target": "fr"},
        PLAIN | {"target": "zz"},
        PLAIN | {"beam_size": 0},
    ],
)
async def test_other_requests_are_passed_on_and_not_counted(
    client: httpx.AsyncClient, service: Service, body: dict[str, Any]
) -> None:
    before = accepted(read_books(service.metrics.render()[0].decode()))
    assert (await client.post("/translate", json=body)).status_code == PASSED_ON
    assert accepted(read_books(service.metrics.render()[0].decode())) == before


async def test_owner_counts_the_requests_of_the_front(
    client: httpx.AsyncClient, service: Service
) -> None:
    for _ in range(3):
        assert (await client.post("/translate", json=PLAIN)).status_code == 200
    while outcomes(books := read_books(service.metrics.render()[0].decode())) != {"ok": 4.0}:
        await asyncio.sleep(0.01)
    assert accepted(books) == 4
    assert books["nmt_characters_total", ("shout-de-en",)] == 1 + 3 * 24
    assert books["nmt_tokenize_duration_seconds_count", ("shout-de-en",)] == 4
    assert_no_sentence_is_left(books)


@pytest.fixture
async def keyed(settings: Settings, owner: Path) -> AsyncIterator[tuple[httpx.AsyncClient, str]]:
    """A client where keys are required, and a key for three requests and thirty characters."""
    settings = settings.model_copy(update={"api_keys": "required"})
    settings.state.mkdir()
    async with Database(settings.state / FILE_NAME) as database:
        key = await KeyStore(database).add("ann", requests_per_minute=3, characters_per_month=30)
    async with (
        running(settings, load_shouting, socket_beside(owner)),
        front_of(settings, owner, key=key) as client,
    ):
        yield client, key


async def test_limits_and_quotas_of_the_owner_apply(
    keyed: tuple[httpx.AsyncClient, str],
) -> None:
    client, key = keyed
    texts = {"text": PLAIN["q"], "source_lang": "DE", "target_lang": "EN", "auth_key": key}
    first = await client.post("/translate", json=PLAIN | {"api_key": key})
    spent = await client.post("/v2/translate", json=texts)
    slowed = await client.post("/translate", json=PLAIN | {"api_key": key})
    assert first.status_code == 200
    assert (spent.status_code, "Quota exceeded" in spent.json()["message"]) == (456, True)
    assert (slowed.status_code, "Slowdown" in slowed.json()["error"]) == (429, True)
    assert int(slowed.headers["retry-after"]) >= 1


@pytest.mark.parametrize(("failure", "status"), [("error", 500), ("late", 504)])
async def test_request_that_the_front_does_not_finish_is_not_charged(
    client: httpx.AsyncClient,
    service: Service,
    monkeypatch: pytest.MonkeyPatch,
    failure: str,
    status: int,
) -> None:
    async def failing(prepared: Any, decoded: Any) -> Any:
        if failure == "error":
            raise RuntimeError("a failure made for a test")
        await asyncio.sleep(WAIT_SECONDS)

    async def used() -> int:
        async with asked_directly(service) as direct:
            characters: int = (await direct.get("/v2/usage")).json()["character_count"]
        return characters

    while service.drain.running:
        await asyncio.sleep(0.01)
    before = await used()
    with monkeypatch.context() as failures:
        failures.setattr(owner_link, "finish_plain", failing)
        headers = {"x-request-timeout": "0.2"}
        response = await client.post("/translate", json=PLAIN, headers=headers)
    assert response.status_code == status
    while service.drain.running:
        await asyncio.sleep(0.01)
    assert await used() == before
    assert (await client.post("/translate", json=PLAIN)).status_code == 200
    while await used() != before + 24:
        await asyncio.sleep(0.01)


async def test_keys_are_read_in_the_front_and_wrong_ones_are_passed_on(
    keyed: tuple[httpx.AsyncClient, str],
) -> None:
    client, key = keyed
    headers = {"authorization": f"Bearer {key}"}
    right = await client.post("/translate", json=PLAIN, headers=headers)
    wrong = await client.post("/translate", json=PLAIN | {"api_key": "wrong"})
    none = await client.post("/translate", json=PLAIN)
    assert [each.status_code for each in (right, wrong, none)] == [200, PASSED_ON, PASSED_ON]


async def test_reload_refuses_no_request_and_frees_the_retired_model(
    client: httpx.AsyncClient, service: Service, settings: Settings
) -> None:
    before = model_of(service, "shout-de-en")
    put_bundle(settings.bundles, "shout-de-en", "de", "en", version="2")
    reloading = asyncio.create_task(service.reloader.reload())
    versions = []
    while not versions or versions[-1] != "2":
        response = await client.post("/translate", json=PLAIN)
        assert response.status_code == 200, response.text
        versions.append(response.headers["x-model-version"])
    await reloading
    assert versions[0] == "1"
    while before.engine.alive:
        await asyncio.sleep(0.01)
    assert before.leases == 0


async def test_model_that_a_worker_cannot_open_is_left_to_the_owner(
    service: Service, settings: Settings, owner: Path
) -> None:
    def open_first(offered: OfferedModel) -> LoadedModel:
        if offered.version != "1":
            raise InvalidBundle("it was replaced")
        return open_shouting(offered)

    before = model_of(service, "shout-de-en")
    async with front_of(settings, owner, open_model=open_first) as client:
        put_bundle(settings.bundles, "shout-de-en", "de", "en", version="2")
        await service.reloader.reload()
        while (await client.post("/translate", json=PLAIN)).status_code != PASSED_ON:
            await asyncio.sleep(0.01)
        # The worker keeps no retired model loaded.
        while before.engine.alive:
            await asyncio.sleep(0.01)


@pytest.fixture
def twins(settings: Settings) -> Settings:
    """Two models of one pair, both of which a worker offers."""
    put_bundle(settings.bundles, "shout-twin", "de", "en")
    return settings


async def test_request_after_the_engine_died_is_routed_to_the_other_model_at_once(
    twins: Settings, service: Service, client: httpx.AsyncClient
) -> None:
    await model_of(service, "shout-de-en").engine.close()
    async with asked_directly(service) as direct:
        expected = await direct.post("/translate", json=PLAIN)
    assert expected.json()["model"] == ["shout-twin"] * 2
    for _ in range(2):
        response = await client.post("/translate", json=PLAIN)
        assert (response.status_code, response.json()) == (200, expected.json())


async def test_request_for_a_model_whose_engine_died_is_refused_and_later_ones_are_passed_on(
    twins: Settings, service: Service, client: httpx.AsyncClient
) -> None:
    await model_of(service, "shout-de-en").engine.close()
    body = PLAIN | {"model": "shout-de-en"}
    async with asked_directly(service) as direct:
        expected = await direct.post("/translate", json=body)
    refused = await client.post("/translate", json=body)
    assert (refused.status_code, refused.json()) == (503, expected.json())
    assert refused.headers["retry-after"] == expected.headers["retry-after"]
    assert (await client.post("/translate", json=body)).status_code == PASSED_ON
    await service.reloader.reload()
    await taken(client)


class _AsciiTokenizer(ByteTokenizer):
    def encode(self, text: str) -> tuple[int, ...]:
        ids = (super(_AsciiTokenizer, self).encode(each) for each in text)
        return tuple(UNK if len(each) > 1 else each[0] for each in ids)

    def unknown(self, text: str) -> tuple[UnknownToken, ...]:
        return tuple(
            UnknownToken(index, character, (index, index + 1))
            for index, character in enumerate(text)
            if not character.isascii()
        )


async def test_request_is_left_to_the_owner_if_the_other_model_may_write_unknown_tokens(
    twins: Settings, service: Service, owner: Path
) -> None:
    def open_model(offered: OfferedModel) -> LoadedModel:
        model = open_shouting(offered)
        if offered.name == "shout-twin":
            model.tokenizers = Both(_AsciiTokenizer())
        return model

    async with front_of(twins, owner, open_model=open_model) as client:
        await model_of(service, "shout-de-en").engine.close()
        body = PLAIN | {"q": "ein größeres wort"}
        refused = await client.post("/translate", json=body)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert (await client.post("/translate", json=body)).status_code == PASSED_ON


async def test_reloaded_model_answers_before_the_worker_takes_the_offer(
    service: Service, settings: Settings, owner: Path
) -> None:
    may_open = threading.Event()
    may_open.set()

    def open_later(offered: OfferedModel) -> LoadedModel:
        may_open.wait(WAIT_SECONDS)
        return open_shouting(offered)

    async with front_of(settings, owner, open_model=open_later) as client:
        may_open.clear()
        await model_of(service, "shout-de-en").engine.close()
        await service.reloader.reload()
        response = await client.post("/translate", json=PLAIN)
        may_open.set()
    assert response.status_code == 200


async def test_owner_that_is_gone_is_answered_with_503_and_found_again(
    settings: Settings, owner: Path
) -> None:
    async with running(settings, load_shouting, socket_beside(owner)) as service:
        opened = front_of(settings, owner)
        client = await opened.__aenter__()
        for connection in service.decode_server.connections:
            connection.close()
        answers = [(await client.post("/translate", json=PLAIN)).status_code for _ in range(3)]
        assert set(answers) <= {503, PASSED_ON, 200}
        await taken(client)
        assert (await client.post("/translate", json=PLAIN)).status_code == 200
    while (after := await client.post("/translate", json=PLAIN)).status_code != PASSED_ON:
        assert (after.status_code, after.headers["retry-after"]) == (503, "5")
    await opened.__aexit__(None, None, None)


async def test_cancelled_request_is_cancelled_in_the_owner(
    client: httpx.AsyncClient, service: Service
) -> None:
    model = model_of(service, "shout-de-en")
    with model.engine.gathering():
        asking = asyncio.create_task(client.post("/translate", json=PLAIN))
        while not service.drain.running:
            await asyncio.sleep(0.01)
        asking.cancel()
        while service.drain.running:
            await asyncio.sleep(0.01)
    while outcomes(books := read_books(service.metrics.render()[0].decode())) != {
        "ok": 1.0,
        "cancelled": 1.0,
    }:
        await asyncio.sleep(0.01)
    assert accepted(books) == 2


async def test_request_cancelled_before_the_owner_begins_it_leaves_no_task(
    client: httpx.AsyncClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both messages arrive in one frame."""
    (connection,) = service.decode_server.connections
    while service.drain.running:
        await asyncio.sleep(0.01)
    sent: list[FromWorker] = []
    with monkeypatch.context() as patch:
        patch.setattr(type(connection), "message_received", lambda _, message: sent.append(message))
        asking = asyncio.create_task(client.post("/translate", json=PLAIN))
        while not any(isinstance(each, Decode) for each in sent):
            await asyncio.sleep(0.01)
        asking.cancel()
        while not any(isinstance(each, Cancel) for each in sent):
            await asyncio.sleep(0.01)
    for message in sent:
        connection.message_received(message)
    await asyncio.sleep(0.05)
    assert not connection._tasks


async def test_late_request_is_refused_and_cancelled_in_the_owner(
    client: httpx.AsyncClient, service: Service
) -> None:
    model = model_of(service, "shout-de-en")
    with model.engine.gathering():
        headers = {"x-request-timeout": "0.05"}
        response = await client.post("/translate", json=PLAIN, headers=headers)
        while service.drain.running:
            await asyncio.sleep(0.01)
    assert response.status_code == 504
    assert "0.05 seconds" in response.json()["error"]


async def test_unexpected_error_of_the_owner_is_logged_there_with_the_request_id(
    client: httpx.AsyncClient,
    service: Service,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(*_: object) -> None:
        raise KeyError("a secret")

    monkeypatch.setattr(service.translator, "decode", broken)
    response = await client.post("/translate", json=PLAIN, headers={"x-request-id": "r1"})
    assert response.status_code == 500
    assert response.json() == {"error": "internal error; it was logged as request r1"}
    assert any("a secret" in (record.exc_text or "") for record in caplog.records)


async def test_draining_owner_refuses_with_retry_after(
    client: httpx.AsyncClient, service: Service
) -> None:
    service.drain.begin()
    response = await client.post("/translate", json=PLAIN)
    assert (response.status_code, response.headers["retry-after"]) == (503, "5")


async def test_draining_front_refuses_further_requests(
    service: Service, settings: Settings, owner: Path
) -> None:
    drain = Drain()
    async with front_of(settings, owner, drain) as client:
        drain.begin()
        response = await client.post("/translate", json=PLAIN)
    assert (response.status_code, response.headers["connection"]) == (503, "close")
