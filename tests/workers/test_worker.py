"""A worker and the owner that decodes for it, connected by sockets."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from models.bundle.manifest import InvalidBundle
from service.api.access import Caller
from service.api.draining import Drain
from service.bootstrap import Service
from service.catalogue.loaded_model import LoadedModel
from service.engine.types import DecodingOptions, Origin
from service.settings import Settings
from service.state.database import FILE_NAME, Database
from service.state.keys import KeyStore, Limits
from service.translation import translator
from service.workers import proxy
from service.workers.messages import Admit, Close, Decode, FromWorker, Keep
from service.workers.proxy import Proxy
from service.workers.worker import WorkerApp
from tests.support.books import accepted, assert_no_sentence_is_left, outcomes, read_books
from tests.support.fronts import open_shouting, owning, ready, worker_of
from tests.support.toy import put_bundle
from tests.support.waiting import until

PLAIN = {"q": ["ein wort. noch eins.", "zwei"], "source": "de", "target": "en"}

WAIT_SECONDS = 10.0
"""Seconds after which a test that has failed lets its threads end."""


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
    async with owning(settings, owner) as service:
        yield service


@pytest.fixture
async def worker(
    service: Service, settings: Settings, owner: Path
) -> AsyncIterator[tuple[WorkerApp, httpx.AsyncClient]]:
    async with worker_of(settings, owner) as worker:
        yield worker


@pytest.fixture
def client(worker: tuple[WorkerApp, httpx.AsyncClient]) -> httpx.AsyncClient:
    return worker[1]


def model_of(service: Service, name: str) -> LoadedModel:
    return service.repository.catalogue.named(name)


def asked_directly(service: Service) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(service.app), base_url="http://owner")


def books_of(service: Service) -> dict[Any, float]:
    return read_books(service.metrics.render()[0].decode())


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/translate", PLAIN),
        ("/translate", PLAIN | {"alternatives": 2, "return_scores": True}),
        ("/translate", PLAIN | {"source": "auto", "q": "Das Wetter ist heute schön."}),
        ("/translate", PLAIN | {"target": "fr"}),
        ("/translate", PLAIN | {"format": "html", "q": "ein <b>wort</b>. {name} kommt."}),
        ("/translate", PLAIN | {"q": "ein wort", "glossary": {"wort": "word"}}),
        ("/translate", PLAIN | {"q": "ein wort", "prefix": "EIN"}),
        ("/translate", PLAIN | {"confidence": True}),
        ("/translate", PLAIN | {"num_hypotheses": 2, "return_alternatives": True}),
        ("/translate", PLAIN | {"target": "de"}),
        ("/translate", PLAIN | {"target": "zz"}),
        ("/translate", PLAIN | {"beam_size": 0}),
        ("/v2/translate", {"text": ["ab 12."], "source_lang": "DE", "target_lang": "EN"}),
        ("/alternatives", {"q": "ein wort", "source": "de", "target": "en", "position": 4}),
        ("/nowhere", {}),
    ],
)
async def test_worker_answers_as_the_owner_would(
    client: httpx.AsyncClient, service: Service, path: str, body: dict[str, Any]
) -> None:
    async with asked_directly(service) as direct:
        expected = await direct.post(path, json=body)
    response = await client.post(path, json=body)
    assert (response.status_code, response.json()) == (expected.status_code, expected.json())
    assert dict(response.headers).keys() == dict(expected.headers).keys()


@pytest.mark.parametrize("body", [PLAIN, PLAIN | {"format": "html", "q": "<p>eins</p><p>zwei</p>"}])
async def test_worker_streams_as_the_owner_would(
    client: httpx.AsyncClient, service: Service, body: dict[str, Any]
) -> None:
    async with asked_directly(service) as direct:
        expected = await direct.post("/translate", json=body | {"stream": True})
    response = await client.post("/translate", json=body | {"stream": True})
    assert response.headers["content-type"] == expected.headers["content-type"]
    assert response.text == expected.text
    assert response.text.count("event: part") > 1


async def test_translation_of_a_worker_is_kept_for_its_attention(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.post("/translate", json=PLAIN | {"attention": True})
    name = answer.json()["id"]
    assert answer.headers["x-translation-id"] == name
    kept = await client.get(f"/translations/{name}")
    assert len(kept.json()["texts"]) == len(PLAIN["q"])
    alignment = await client.get(f"/translations/{name}/alignment")
    assert alignment.status_code == 200


async def test_owner_counts_the_requests_of_a_worker(
    client: httpx.AsyncClient, service: Service
) -> None:
    for _ in range(3):
        assert (await client.post("/translate", json=PLAIN)).status_code == 200
    while outcomes(books := books_of(service)) != {"ok": 3.0}:
        await asyncio.sleep(0.01)
    assert accepted(books) == 3
    assert books["nmt_characters_total", ("shout-de-en",)] == 3 * 24
    assert books["nmt_tokenize_duration_seconds_count", ("shout-de-en",)] == 3
    assert_no_sentence_is_left(books)


@pytest.fixture
async def keyed(settings: Settings, owner: Path) -> AsyncIterator[tuple[httpx.AsyncClient, str]]:
    """A client where keys are required, and a key for two requests and thirty characters."""
    settings = settings.model_copy(update={"api_keys": "required"})
    settings.state.mkdir()
    async with Database(settings.state / FILE_NAME) as database:
        key = await KeyStore(database).add(
            "ann", limits=Limits(requests_per_minute=2, characters_per_month=30)
        )
    async with owning(settings, owner), worker_of(settings, owner) as (_, client):
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
async def test_request_that_the_worker_does_not_finish_is_not_charged(
    client: httpx.AsyncClient,
    service: Service,
    monkeypatch: pytest.MonkeyPatch,
    failure: str,
    status: int,
) -> None:
    async def failing(*_: object) -> Any:
        if failure == "error":
            raise RuntimeError("a failure made for a test")
        await asyncio.sleep(WAIT_SECONDS)

    async def used() -> int:
        async with asked_directly(service) as direct:
            characters: int = (await direct.get("/v2/usage")).json()["character_count"]
        return characters

    before = await used()
    with monkeypatch.context() as failures:
        failures.setattr(translator, "forced_passes", failing)
        # A busy machine may need longer for the error.
        headers = {"x-request-timeout": "0.2"} if failure == "late" else {}
        response = await client.post("/translate", json=PLAIN, headers=headers)
    assert response.status_code == status
    await until(lambda: not service.drain.running)
    assert await used() == before
    assert (await client.post("/translate", json=PLAIN)).status_code == 200
    while await used() != before + 24:
        await asyncio.sleep(0.01)


async def test_wrong_and_missing_keys_are_refused(
    keyed: tuple[httpx.AsyncClient, str],
) -> None:
    client, key = keyed
    headers = {"authorization": f"Bearer {key}"}
    right = await client.post("/translate", json=PLAIN, headers=headers)
    wrong = await client.post("/translate", json=PLAIN | {"api_key": "wrong"})
    none = await client.post("/translate", json=PLAIN)
    assert [each.status_code for each in (right, wrong, none)] == [200, 403, 400]


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
    await until(lambda: not before.engine.alive)
    assert before.leases == 0


async def test_running_request_keeps_its_model_after_a_reload(
    service: Service, settings: Settings, worker: tuple[WorkerApp, httpx.AsyncClient]
) -> None:
    app, client = worker
    (model,) = (each for each in app.front.link.catalogue.models if each.name == "shout-de-en")
    sentence = ((5,), DecodingOptions())
    caller, origin = Caller(None, "address test"), Origin()
    async with app.front.link.opened(caller, 1, origin) as (decoder, _):
        before = await decoder.decode(model, [sentence])
        put_bundle(settings.bundles, "shout-de-en", "de", "en", version="2")
        await service.reloader.reload()
        version = ""
        # The worker says which offer it uses before it asks for a translation by it.
        while version != "2":
            version = (await client.post("/translate", json=PLAIN)).headers["x-model-version"]
        assert await decoder.decode(model, [sentence]) == before


async def test_model_that_a_worker_cannot_open_is_left_to_the_owner(
    service: Service, settings: Settings, owner: Path
) -> None:
    def open_first(path: Path, name: str, version: str) -> LoadedModel:
        if version != "1":
            raise InvalidBundle("it was replaced")
        return open_shouting(path, name, version)

    before = model_of(service, "shout-de-en")
    async with worker_of(settings, owner, open_model=open_first) as (app, client):
        put_bundle(settings.bundles, "shout-de-en", "de", "en", version="2")
        await service.reloader.reload()
        await until(lambda: not app.front.link.ready)
        answer = await client.post("/translate", json=PLAIN)
        assert (answer.status_code, answer.headers["x-model-version"]) == (200, "2")
        # The worker keeps no retired model loaded.
        await until(lambda: not before.engine.alive)


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


async def test_request_for_a_model_whose_engine_died_is_refused_until_a_reload(
    twins: Settings, service: Service, worker: tuple[WorkerApp, httpx.AsyncClient]
) -> None:
    _, client = worker
    await model_of(service, "shout-de-en").engine.close()
    body = PLAIN | {"model": "shout-de-en"}
    for _ in range(2):
        refused = await client.post("/translate", json=body)
        assert (refused.status_code, "retry-after" in refused.headers) == (503, True)
    await service.reloader.reload()
    while (await client.post("/translate", json=body)).status_code != 200:
        await asyncio.sleep(0.01)


async def test_reloaded_model_answers_before_the_worker_takes_the_offer(
    service: Service, settings: Settings, owner: Path
) -> None:
    may_open = threading.Event()
    may_open.set()

    def open_later(path: Path, name: str, version: str) -> LoadedModel:
        may_open.wait(WAIT_SECONDS)
        return open_shouting(path, name, version)

    async with worker_of(settings, owner, open_model=open_later) as (_, client):
        may_open.clear()
        await model_of(service, "shout-de-en").engine.close()
        await service.reloader.reload()
        response = await client.post("/translate", json=PLAIN)
        may_open.set()
    assert response.status_code == 200


async def test_request_without_an_owner_is_answered_with_503_until_it_is_back(
    settings: Settings, owner: Path
) -> None:
    async with owning(settings, owner) as service:
        opened = worker_of(settings, owner)
        app, client = await opened.__aenter__()
        for connection in service.decode_server.connections:
            connection.close()
        while (answer := await client.post("/translate", json=PLAIN)).status_code != 200:
            assert answer.status_code == 503
            await asyncio.sleep(0.01)
    for path in ("/translate", "/languages"):
        gone = await client.request("POST" if path == "/translate" else "GET", path)
        assert (gone.status_code, gone.headers["retry-after"]) == (503, "1")
    async with owning(settings, owner):
        await ready(app)
        assert (await client.post("/translate", json=PLAIN)).status_code == 200
    await opened.__aexit__(None, None, None)


async def test_stalled_body_of_a_request_that_is_passed_on_is_answered_with_408(
    worker: tuple[WorkerApp, httpx.AsyncClient], service: Service, owner: Path
) -> None:
    app, client = worker
    await app.proxy.close()
    app.proxy = Proxy(owner, 60, body_seconds=0.01)

    async def pieces() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(60)

    answer = await client.post("/v2/glossaries", content=pieces())
    assert (answer.status_code, answer.headers["connection"]) == (408, "close")
    # The owner waits for the rest no longer.
    await until(lambda: not service.drain.running)


async def test_requests_beyond_those_passed_on_at_once_wait_and_are_then_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await go.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    passed_on = Proxy(tmp_path / "owner", 60, most=1)
    async with (
        await asyncio.start_unix_server(slow, tmp_path / "owner"),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(passed_on), base_url="http://worker", timeout=WAIT_SECONDS
        ) as client,
    ):
        waiting = [asyncio.create_task(client.get("/languages")) for _ in range(3)]
        await asyncio.sleep(0.05)
        monkeypatch.setattr(proxy, "_TURN_SECONDS", 0.01)
        refused = await client.get("/languages")
        assert (refused.status_code, refused.json()) == (503, {"error": proxy.BUSY})
        go.set()
        assert [(await each).status_code for each in waiting] == [200, 200, 200]
    await passed_on.close()


async def test_worker_has_closed_its_connections_once_it_says_that_it_has_stopped(
    settings: Settings, service: Service, owner: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    events: asyncio.Queue[Any] = asyncio.Queue()
    app = WorkerApp(settings, owner, Drain(), open_shouting)
    close = app.proxy.close

    async def slowly() -> None:
        await asyncio.sleep(0.01)
        await close()
        said.append("closed")

    async def send(message: Any) -> None:
        said.append(message["type"])

    monkeypatch.setattr(app.proxy, "close", slowly)
    for event in ("startup", "shutdown"):
        events.put_nowait({"type": f"lifespan.{event}"})
    await app({"type": "lifespan", "app": app, "state": {}}, events.get, send)
    assert said == ["lifespan.startup.complete", "closed", "lifespan.shutdown.complete"]


async def test_silent_owner_is_answered_for_with_504_after_the_limit_of_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner reads requests and begins no answer, or one that it does not end."""
    begun = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\na"
    closed = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if b"GET /begun" in await reader.read(4096):
            writer.write(begun)
        await reader.read()
        writer.close()
        closed.set()

    monkeypatch.setattr(proxy, "GRACE_SECONDS", 0.05)
    passed_on = Proxy(tmp_path / "owner", 60, {"/slow"})
    transport = httpx.ASGITransport(passed_on)
    async with (
        await asyncio.start_unix_server(silent, tmp_path / "owner"),
        httpx.AsyncClient(
            transport=transport,
            base_url="http://worker",
            headers={"x-request-timeout": "0.01"},
        ) as client,
    ):
        for method, path in (("GET", "/languages"), ("POST", "/v2/glossaries")):
            answer = await client.request(method, path, content=b"{}" if method == "POST" else None)
            assert (answer.status_code, answer.headers["connection"]) == (504, "close")
            await asyncio.wait_for(closed.wait(), WAIT_SECONDS)
            closed.clear()
        # The transport finds that an answer has ended without its last message.
        with pytest.raises(AssertionError):
            await client.get("/begun")
        waiting = asyncio.create_task(client.post("/slow", content=b"{}"))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await passed_on.close()


async def test_wrong_key_and_translation_to_keep_end_at_their_deadline(
    settings: Settings, owner: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner receives the messages of the worker, and answers only calls to decode."""
    settings = settings.model_copy(update={"api_keys": "optional"})
    async with (
        owning(settings, owner) as service,
        worker_of(settings, owner) as (app, client),
    ):
        monkeypatch.setattr(app.front.link, "_seconds", 0.05)
        (connection,) = service.decode_server.connections
        received = connection.message_received

        def drop(message: FromWorker) -> None:
            if not isinstance(message, Keep | Admit):
                received(message)

        monkeypatch.setattr(connection, "message_received", drop)
        for body in (PLAIN | {"attention": True}, PLAIN | {"api_key": "wrong"}):
            assert (await client.post("/translate", json=body)).status_code == 504


async def test_cancelled_request_is_cancelled_in_the_owner(
    client: httpx.AsyncClient, service: Service
) -> None:
    model = model_of(service, "shout-de-en")
    with model.engine.gathering():
        asking = asyncio.create_task(client.post("/translate", json=PLAIN))
        await until(lambda: service.drain.running)
        asking.cancel()
        await until(lambda: not service.drain.running)
    while outcomes(books := books_of(service)) != {"cancelled": 1.0}:
        await asyncio.sleep(0.01)
    assert accepted(books) == 1


async def test_request_cancelled_before_the_owner_begins_it_leaves_no_task(
    client: httpx.AsyncClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    (connection,) = service.decode_server.connections
    await until(lambda: not service.drain.running)
    sent: list[FromWorker] = []
    with monkeypatch.context() as patch:
        patch.setattr(type(connection), "message_received", lambda _, message: sent.append(message))
        asking = asyncio.create_task(client.post("/translate", json=PLAIN))
        await until(lambda: any(isinstance(each, Decode) for each in sent))
        asking.cancel()
        await until(lambda: any(isinstance(each, Close) for each in sent))
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
        await until(lambda: not service.drain.running)
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

    monkeypatch.setattr(model_of(service, "shout-de-en").results, "decode", broken)
    response = await client.post("/translate", json=PLAIN, headers={"x-request-id": "r1"})
    assert response.status_code == 500
    assert response.json() == {"error": "internal error; it was logged as request r1"}
    assert any("a secret" in (record.exc_text or "") for record in caplog.records)


async def test_draining_owner_refuses_with_retry_after(
    client: httpx.AsyncClient, service: Service
) -> None:
    service.drain.begin()
    for method, path in (("POST", "/translate"), ("GET", "/languages")):
        response = await client.request(method, path, json=PLAIN)
        assert (response.status_code, response.headers["retry-after"]) == (503, "5")
        assert response.headers["connection"] == "close"


async def test_answers_accepted_before_the_owner_drains_close_their_connections(
    client: httpx.AsyncClient, service: Service
) -> None:
    model = model_of(service, "shout-de-en")
    with model.engine.gathering():
        asking = asyncio.create_task(client.post("/translate", json=PLAIN))
        await until(lambda: service.drain.running)
        service.drain.begin()
    answer = await asking
    assert (answer.status_code, answer.headers["connection"]) == (200, "close")


async def test_worker_learns_of_a_drain_and_of_the_next_owner(
    settings: Settings, owner: Path
) -> None:
    async with owning(settings, owner) as service:
        opened = worker_of(settings, owner)
        app, client = await opened.__aenter__()
        service.drain.leave()
        await until(lambda: app.front.link.leaving)
        answer = await client.post("/translate", json=PLAIN)
        assert (answer.status_code, answer.headers["connection"]) == (200, "close")
        service.drain.begin()
    async with owning(settings, owner):
        await ready(app)
        answer = await client.post("/translate", json=PLAIN)
        assert (answer.status_code, "connection" in answer.headers) == (200, False)
    await opened.__aexit__(None, None, None)


async def test_draining_worker_refuses_further_requests(
    service: Service, settings: Settings, owner: Path
) -> None:
    drain = Drain()
    async with worker_of(settings, owner, drain) as (_, client):
        drain.begin()
        response = await client.post("/translate", json=PLAIN)
    assert (response.status_code, response.headers["connection"]) == (503, "close")


class Asking:
    """A request to a proxy without a server."""

    def __init__(self, *headers: tuple[bytes, bytes]) -> None:
        self.scope = {
            "type": "http",
            "method": "POST" if headers else "GET",
            "scheme": "http",
            "path": "/languages",
            "raw_path": b"/languages",
            "query_string": b"",
            "headers": headers,
            "client": None,
        }
        self.hung_up: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.pieces = 1
        self.sent: list[Any] = []

    async def receive(self) -> Any:
        if not self.pieces:
            return await self.hung_up
        self.pieces -= 1
        await asyncio.sleep(0)
        return {"type": "http.request", "body": bytes(65_536), "more_body": self.pieces > 0}

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def ask(self, passed_on: Proxy) -> int | None:
        await passed_on(self.scope, self.receive, self.send)
        return self.sent[0]["status"] if self.sent else None


async def test_answer_in_the_moment_of_a_hang_up_logs_nothing(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    failures: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: failures.append(context))
    passed_on, request = Proxy(tmp_path / "owner", 60), Asking()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "owner"))
        listener.listen()
        listener.setblocking(False)
        asking = asyncio.create_task(request.ask(passed_on))
        connection, _ = await loop.sock_accept(listener)
        with connection:
            await loop.sock_recv(connection, 4096)
            request.hung_up.set_result({"type": "http.disconnect"})
            # The request is cancelled in the turn of the loop that finds the answer.
            loop.call_soon(connection.send, b"HTTP/1.1 200 OK\r\n")
            assert await asking is None
    await passed_on.close()
    assert failures == []


async def test_answer_to_a_body_that_the_owner_does_not_read_is_passed_on(tmp_path: Path) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 401 \r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    passed_on, request = Proxy(tmp_path / "owner", 60), Asking((b"transfer-encoding", b"chunked"))
    request.pieces = 1_000
    async with await asyncio.start_unix_server(refuse, tmp_path / "owner"):
        assert await request.ask(passed_on) == 401
    await passed_on.close()


async def test_requests_wait_while_the_owner_has_too_many_connections_to_accept(
    tmp_path: Path,
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    passed_on = Proxy(tmp_path / "owner", 60)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "owner"))
        listener.listen(1)
        waiting = [asyncio.create_task(Asking().ask(passed_on)) for _ in range(6)]
        await asyncio.sleep(0.05)
        async with await asyncio.start_unix_server(answer, sock=listener):
            assert [await each for each in waiting] == [200] * 6
    await passed_on.close()


async def test_connection_with_unread_bytes_is_not_used_again(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        await asyncio.sleep(0.02)
        writer.write(b"HTTP/1.1 500 \r\ncontent-length: 0\r\n\r\n")

    passed_on = Proxy(tmp_path / "owner", 60)
    async with await asyncio.start_unix_server(answer, tmp_path / "owner"):
        for _ in range(2):
            assert await Asking().ask(passed_on) == 200
            await asyncio.sleep(0.05)
    await passed_on.close()
