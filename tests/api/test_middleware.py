from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import httpx
import pytest
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client.parser import text_string_to_metric_families
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from service.api.errors import RequestError, refusal_of
from service.api.middleware import (
    BodyLimit,
    CancelOnHangUp,
    Cors,
    RequestLog,
    answer_bug,
    facts_of,
)
from service.bootstrap import Service
from service.observability.metrics import Metrics
from service.settings import Settings
from service.translation.types import Timing
from tests.api.answers import DE_EN, answered, refused
from tests.support.asgi import connected
from tests.support.cycles import without_cycles
from tests.support.keys import add_key
from tests.support.worker_processes import WORKERS


async def test_every_answer_carries_an_id_and_its_time(client: httpx.AsyncClient) -> None:
    for path in ("/livez", "/nowhere", "/"):
        response = await client.get(path)
        assert re.fullmatch(r"[0-9a-f]{32}", response.headers["x-request-id"])
        assert float(response.headers["x-total-time"]) >= 0


async def test_valid_request_id_of_a_client_is_kept(client: httpx.AsyncClient) -> None:
    given = {"x-request-id": "a-1.B_2:3"}
    assert (await client.get("/livez", headers=given)).headers["x-request-id"] == "a-1.B_2:3"
    for odd in (b"", b"a b", b"a\tb", b"x" * 129, "ü".encode()):
        answer = await client.get("/livez", headers={b"x-request-id": odd})
        assert re.fullmatch(r"[0-9a-f]{32}", answer.headers["x-request-id"])


async def test_request_log_is_one_line_without_texts(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "service.access"):
        await client.get("/livez")
        await client.post("/translate?q=geheim", params={"q": "geheim", **DE_EN})
    (record,) = [r for r in caplog.records if r.name == "service.access"]
    assert record.getMessage() == "POST /translate"
    assert vars(record)["status"] == 200
    assert vars(record)["milliseconds"] > 0
    assert "geheim" not in str(vars(record))


async def test_request_log_has_caller_characters_and_model(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(settings, api_keys="required") as client:
        headers = {"x-api-key": await add_key(settings.state, "ann")}
        with caplog.at_level(logging.INFO, "service.access"):
            await answered(client.post("/translate", json={"q": "wort", **DE_EN}, headers=headers))
            await client.get("/languages")
    translated, other = [vars(r) for r in caplog.records if r.name == "service.access"]
    facts = [translated[name] for name in ("caller", "characters", "model")]
    assert facts == ["ann", 4, "shout-de-en"]
    assert not {"caller", "characters", "model"} & other.keys()


async def test_unexpected_error_is_logged_and_returns_500_without_details(
    service: Service,
    client: httpx.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise KeyError("a secret")

    monkeypatch.setattr(service.translator.stages, "translate", broken)
    response = await client.post(
        "/translate", json={"q": "a", **DE_EN}, headers={"x-request-id": "r1"}
    )
    assert response.status_code == 500
    assert response.json() == {"error": "internal error; it was logged as request r1"}
    assert response.headers["x-request-id"] == "r1"
    assert any("a secret" in (record.exc_text or "") for record in caplog.records)


async def test_chunked_body_over_the_limit_returns_413(client: httpx.AsyncClient) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(80):
            yield b"x" * 1000

    for content_type in ("application/json", "application/x-www-form-urlencoded"):
        headers = {"content-type": content_type}
        long = client.post("/translate", content=pieces(), headers=headers)
        assert "at most 65536 bytes" in await refused(long, 413)


class Mounted:
    """A root app with a mounted app, like DeepL's, within our middleware."""

    def __init__(self, handler: Callable[[Request], None] = lambda _: None) -> None:
        self.metrics = Metrics()
        self.app, below = FastAPI(), FastAPI()

        @below.get("/translate/{number}")
        async def translate(request: Request, number: int) -> str:
            handler(request)
            return "ok"

        below.add_exception_handler(Exception, answer_bug)
        self.app.mount("/v2", below)
        self.app.add_middleware(BodyLimit, max_bytes=100)
        self.app.add_middleware(RequestLog, metrics=self.metrics)
        self.app.add_middleware(Cors)

    def client(self) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://test")

    def routes(self) -> set[str]:
        return {
            sample.labels["route"]
            for family in self.metrics.registry.collect()
            if family.name == "nmt_requests"
            for sample in family.samples
        }


async def test_metrics_label_mounted_routes_by_template() -> None:
    mounted = Mounted()
    async with mounted.client() as client:
        await client.get("/v2/translate/7")
        await client.post("/v2/translate/8")
        assert mounted.routes() == {"/v2/translate/{number}"}
        await client.get("/v2/secret")
        await client.get("/secret")
    assert mounted.routes() == {"/v2/translate/{number}", "/v2", "other"}


async def test_errors_below_v2_have_deepls_message_body() -> None:
    def broken(_: Request) -> None:
        raise KeyError

    async with Mounted(broken).client() as client:
        refused = await client.post("/v2/translate", content=b"x" * 200)
        failed = await client.get("/v2/translate/1", headers={"x-request-id": "r1"})
    assert refused.json() == {"message": "the body is too large; at most 100 bytes are accepted"}
    assert failed.json() == {"message": "internal error; it was logged as request r1"}


async def test_request_facts_are_sent_as_headers() -> None:
    def find_out(request: Request) -> None:
        facts = facts_of(request)
        facts.timing = Timing(preparing=0.001, queued=0.02, decoding=0.3)
        facts.characters, facts.tokens, facts.model_version = 12, 34, "7"

    async with Mounted(find_out).client() as client:
        headers = (await client.get("/v2/translate/1")).headers
    assert headers["x-tokenization-time"] == "1.0"
    assert headers["x-queue-time"] == "20.0"
    assert headers["x-inference-time"] == "300.0"
    assert headers["x-compute-characters"] == "12"
    assert headers["x-compute-tokens"] == "34"
    assert headers["x-model-version"] == "7"


async def test_tokens_of_source_and_translation_are_counted(client: httpx.AsyncClient) -> None:
    body = {"q": ["Ja", "nein"], "source": "de", "target": "en"}
    headers = (await client.post("/translate", json=body)).headers
    assert headers["x-compute-tokens"] == str(2 * (len("Ja") + len("nein")))


async def test_missing_request_facts_are_not_sent_as_headers(client: httpx.AsyncClient) -> None:
    headers = (await client.get("/livez")).headers
    present = {name for name in headers if name.startswith("x-")}
    assert present == {"x-request-id", "x-total-time"}


async def test_any_site_may_read_every_answer(client: httpx.AsyncClient) -> None:
    answers = [
        await client.get("/livez"),
        await client.get("/nowhere", headers={"origin": "https://a.example"}),
        await client.post("/translate", json={}),
        await client.post("/translate", content=b"x" * 70_000),
        await client.options(
            "/translate",
            headers={"origin": "https://a.example", "access-control-request-method": "POST"},
        ),
    ]
    assert [answer.status_code for answer in answers] == [200, 404, 400, 413, 204]
    for answer in answers:
        allowed = {
            name.removeprefix("access-control-"): value
            for name, value in answer.headers.items()
            if name.startswith("access-control-")
        }
        assert (allowed["allow-origin"], allowed["allow-credentials"]) == ("*", "true")
    # The last answer is that to the preflight request.
    assert {"Authorization", "Content-Type", "X-API-Key"} <= set(
        allowed["allow-headers"].split(", ")
    )


async def test_scripts_may_use_every_method_and_read_every_documented_header(
    client: httpx.AsyncClient,
) -> None:
    document = (await client.get("/openapi.json")).json()
    methods = {method.upper() for item in document["paths"].values() for method in item}
    preflight = await client.options("/", headers={"access-control-request-method": "PATCH"})
    assert methods <= set(preflight.headers["access-control-allow-methods"].split(", "))
    answer = await client.post("/translate", json={"q": "a", **DE_EN})
    exposed = set(answer.headers["access-control-expose-headers"].lower().split(", "))
    assert {name for name in answer.headers if name.startswith("x-")} <= exposed
    assert {"retry-after", "x-translation-id", "content-disposition"} <= exposed


@pytest.mark.parametrize(
    "path",
    ["/", "/health", "/livez", "/languages", "/v2/languages", "/metrics", "/docs", "/v2/usage"],
)
async def test_head_returns_the_headers_of_get_without_a_body(
    client: httpx.AsyncClient, path: str
) -> None:
    head, get = await client.head(path), await client.get(path)
    assert (head.status_code, head.content) == (get.status_code, b"")
    assert head.headers["content-type"] == get.headers["content-type"]
    # A scrape counts the request before.
    assert path == "/metrics" or head.headers["content-length"] == get.headers["content-length"]


@pytest.mark.parametrize("path", ["/translate", "/v2/glossaries/x/nothing", "/detect"])
async def test_head_is_refused_where_there_is_no_get(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.head(path)).status_code in (404, 405)


async def test_doubled_slashes_at_the_beginning_are_read_as_one(client: httpx.AsyncClient) -> None:
    for path, status in (
        ("//languages", 200),
        ("///livez", 200),
        ("//v2/languages", 200),
        ("/v2//languages", 200),
        ("/languages/", 404),
        ("/v2/languages//", 404),
        ("/translations//x", 404),
    ):
        url = httpx.URL("http://test").copy_with(raw_path=path.encode())
        assert (await client.get(url)).status_code == status, path
    url = httpx.URL("http://test").copy_with(raw_path=b"//translate")
    answer = await client.post(url, data={"q": "ja", "source": "de", "target": "en"})
    assert answer.json()["translatedText"] == "JA"


@pytest.mark.parametrize(("path", "method"), [("/languages", "POST"), ("/v2/languages", "PUT")])
async def test_head_is_listed_where_get_is_allowed(
    client: httpx.AsyncClient, path: str, method: str
) -> None:
    response = await client.request(method, path)
    assert response.status_code == 405
    assert {"GET", "HEAD"} <= set(response.headers["allow"].split(", "))


async def test_host_header_is_never_repeated_in_a_redirect(client: httpx.AsyncClient) -> None:
    for path in ("/translations/x/", "/languages/", "/v2/languages/"):
        response = await client.get(path, headers={"host": "evil.example"})
        assert response.status_code == 404
        assert "evil.example" not in str(response.headers)


def books(text: str) -> tuple[float, float, float]:
    """Accepted, answered and running requests in a scrape."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0) + sample.value
    names = ("nmt_requests_accepted_total", "nmt_requests_total", "nmt_requests_running")
    accepted, answered, running = (found.get(name, 0) for name in names)
    return accepted, answered, running


async def test_accepted_requests_equal_answered_plus_running(client: httpx.AsyncClient) -> None:
    async def ask(number: int) -> None:
        path = "/translate" if number % 3 else "/nowhere"
        asking = asyncio.create_task(client.post(path, json={"q": "wort " * 9, **DE_EN}))
        if number % 4 == 0:
            await asyncio.sleep(0.002)
            asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

    scraped = asyncio.Event()

    async def slow_body() -> AsyncIterator[bytes]:
        yield b"{"
        await scraped.wait()
        yield b"}"

    async def scrape() -> list[tuple[float, float, float]]:
        books_of_all = [books((await client.get("/metrics")).text) for _ in range(20)]
        scraped.set()
        return books_of_all

    slow = client.post("/translate", content=slow_body())
    *_, scrapes = await asyncio.gather(slow, *map(ask, range(60)), scrape())
    for accepted, finished, running in scrapes:
        assert accepted == finished + running
    assert max(running for *_, running in scrapes) > 1
    accepted, finished, running = books((await client.get("/metrics")).text)
    # Over connections, a request may be cancelled before it is sent.
    unsent = 15 if WORKERS else 0
    assert 61 + 20 + 1 - unsent <= accepted <= 61 + 20 + 1
    assert running == 1


async def test_stalled_body_returns_408_and_closes_the_connection() -> None:
    mounted = Mounted()

    @mounted.app.post("/read")
    async def read(request: Request) -> int:
        return len(await request.body())

    mounted.app.add_exception_handler(RequestError, refuse)
    for middleware in mounted.app.user_middleware:
        if middleware.cls is BodyLimit:
            middleware.kwargs["seconds"] = 0.01

    async def pieces() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.sleep(60)

    async with mounted.client() as client:
        response = await client.post("/read", content=pieces())
    assert response.status_code == 408
    assert response.headers["connection"] == "close"
    assert "did not arrive in time" in response.json()["error"]


async def refuse(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, refusal_of(error).status)


@pytest.mark.parametrize("hangs_up", [False, True])
async def test_failed_request_leaves_nothing_to_the_garbage_collector(hangs_up: bool) -> None:
    async def failing(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        if hangs_up:
            await asyncio.Event().wait()
        raise ClientDisconnect

    messages = [{"type": "http.request"}, {"type": "http.disconnect"}]

    async def receive() -> Message:
        return messages.pop(0)

    async def send(message: Message) -> None:
        pass

    with without_cycles():
        with suppress(ClientDisconnect):
            await CancelOnHangUp(failing)({"type": "http"}, receive, send)
        # The cancelled task that watches for a disconnect ends.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
