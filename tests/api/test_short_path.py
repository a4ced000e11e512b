"""The short path of plain translations gives the answers of the routes behind it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.api import metering, short_path
from service.bootstrap import Service, running
from service.engine.errors import BackendFailed
from service.settings import Settings
from service.translation import leg, text_pool
from service.translation.plain import finish_plain
from tests.support.asgi import client_of, connected
from tests.support.books import read_books
from tests.support.cycles import without_cycles
from tests.support.toy import load_shouting, put_bundle

DE_EN = {"source": "de", "target": "en"}
DEEPL = {"source_lang": "DE", "target_lang": "EN"}
WAIT_SECONDS = 10.0
"""After which a test that has failed lets its threads end."""


@pytest.fixture
def finished(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The requests that the short path has finished."""
    requests: list[Any] = []

    async def recorded(prepared: Any, decoded: Any) -> Any:
        requests.append(prepared)
        return await finish_plain(prepared, decoded)

    monkeypatch.setattr(metering, "finish_plain", recorded)
    yield requests


async def both_answers(
    client: httpx.AsyncClient, path: str, body: dict[str, Any]
) -> tuple[httpx.Response, httpx.Response]:
    """The answer of the short path, and that of the route: a query string is passed on."""
    return (
        await client.post(path, json=body),
        await client.post(path, json=body, params={"passed": "on"}),
    )


def scope_of(body: bytes, *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {
        **{"type": "http", "method": "POST", "path": "/translate", "raw_path": b"/translate"},
        **{"query_string": b"", "root_path": "", "client": ("127.0.0.1", 1), "server": None},
        **{"scheme": "http", "http_version": "1.1", "asgi": {"version": "3.0"}, "state": {}},
        "headers": [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            *headers,
        ],
    }


PLAIN: list[tuple[str, dict[str, Any]]] = [
    ("/translate", {"q": "ein wort", **DE_EN}),
    ("/translate", {"q": ["ein wort. noch eins.", "", "zwei\n\nzeilen "], **DE_EN}),
    ("/translate", {"q": "ein wort", **DE_EN, "format": "text", "timings": False}),
    ("/translate", {"q": "ein wort", **DE_EN, "alternatives": 2, "return_scores": True}),
    ("/translate", {"q": "Das Wetter ist heute schön.", "source": "auto", "target": "en"}),
    ("/translate", {"q": "12 und 7", **DE_EN, "beam_size": 2, "model": "shout-de-en"}),
    ("/translate", {"q": "ab cd", **DE_EN, "target_prefix": "AB", "suppress_sequences": ["X"]}),
    ("/translate", {"q": "ab", **DE_EN, "sampling_topk": 5, "beam_size": 1, "seed": 3}),
    ("/translate", {"q": "ab", **DE_EN, "max_decoding_length": 1}),
    ("/v2/translate", {"text": ["ein wort", "noch eins. und eins."], **DEEPL}),
    ("/v2/translate", {"text": "ab", **DEEPL, "num_hypotheses": 2, "return_scores": True}),
    ("/v2/translate", {"text": ["ab\ncd. ef"], **DEEPL, "split_sentences": "nonewlines"}),
    ("/v2/translate", {"text": ["ab"], "target_lang": "EN", "formality": "more"}),
]


@pytest.mark.parametrize(("path", "body"), PLAIN)
async def test_plain_request_gets_the_answer_of_the_route(
    client: httpx.AsyncClient, finished: list[Any], path: str, body: dict[str, Any]
) -> None:
    short, route = await both_answers(client, path, body)
    assert (short.status_code, route.status_code) == (200, 200)
    assert short.json() == route.json()
    assert short.content.isascii() == route.content.isascii()
    assert dict(short.headers).keys() == dict(route.headers).keys()
    for name in ("content-type", "x-compute-tokens", "x-compute-characters", "x-model-version"):
        assert short.headers[name] == route.headers[name]
    assert len(finished) == 1


OTHERS: list[tuple[str, dict[str, Any]]] = [
    ("/translate", {"q": "ab", **DE_EN, "format": "html"}),
    ("/translate", {"q": "ab", **DE_EN, "glossary": {"ab": "XY"}}),
    ("/translate", {"q": "ab", **DE_EN, "prefix": "AB"}),
    ("/translate", {"q": "ab", **DE_EN, "confidence": True}),
    ("/translate", {"q": "ab", **DE_EN, "attention": True}),
    ("/translate", {"q": "ab", **DE_EN, "stream": True}),
    ("/translate", {"q": "ab", **DE_EN, "num_hypotheses": 2, "return_alternatives": True}),
    ("/translate", {"q": "ab", "source": "fr", "target": "de"}),
    ("/translate", {"q": "ab", "source": "de", "target": "de"}),
    ("/translate", {"q": [], **DE_EN}),
    ("/translate", {"q": "ab", "source": "de", "target": "zz"}),
    ("/translate", {"q": "ab", **DE_EN, "model": "none"}),
    ("/translate", {"q": "ab", **DE_EN, "beam_size": 99}),
    ("/translate", {"q": "ab", **DE_EN, "beam_size": "x"}),
    ("/translate", {"q": "ab", **DE_EN, "patience": 0.5, "num_hypotheses": 4, "beam_size": 4}),
    ("/translate", {"q": "ab\ud800", **DE_EN}),
    ("/translate", {"q": "x" * 200, **DE_EN}),
    ("/v2/translate", {"text": ["<b>ab</b>"], **DEEPL, "tag_handling": "html"}),
    ("/v2/translate", {"text": ["ab"], **DEEPL, "glossary_id": "none"}),
    ("/v2/translate", {"target_lang": "EN"}),
]


@pytest.mark.parametrize(("path", "body"), OTHERS)
async def test_other_request_is_answered_by_the_route_and_counted_once(
    client: httpx.AsyncClient, service: Service, finished: list[Any], path: str, body: Any
) -> None:
    content = json.dumps(body)
    headers = {"content-type": "application/json"}
    answers = [
        await client.post(path, content=content, headers=headers, params=params)
        for params in ({}, {"passed": "on"})
    ]
    hidden = {"id", "timings"}
    first, second = answers
    assert first.status_code == second.status_code
    if "stream" not in body:
        shown = [
            {name: value for name, value in answer.json().items() if name not in hidden}
            for answer in answers
        ]
        assert shown[0] == shown[1]
    assert finished == []
    books = read_books(service.metrics.render()[0].decode())
    assert books["nmt_requests_accepted_total", ()] == 2


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": "application/json", "content-encoding": "gzip"},
        {"content-type": "application/x-www-form-urlencoded"},
    ],
)
async def test_body_that_is_not_json_is_passed_on(
    client: httpx.AsyncClient, finished: list[Any], headers: dict[str, str]
) -> None:
    response = await client.post("/translate", content=b"q=ab&source=de&target=en", headers=headers)
    assert response.status_code in (200, 400)
    assert finished == []


@pytest.mark.parametrize("first", ["application/json", "text/plain"])
async def test_first_of_several_content_types_counts_as_in_the_route(
    client: httpx.AsyncClient, finished: list[Any], first: str
) -> None:
    headers = [("content-type", first), ("content-type", "application/json")]
    content = json.dumps({"q": "ab", **DE_EN})
    short, route = [
        await client.post("/translate", content=content, headers=headers, params=params)
        for params in ({}, {"passed": "on"})
    ]
    assert (short.status_code, short.json()) == (route.status_code, route.json())
    assert len(finished) == (first == "application/json")


async def test_body_that_comes_late_is_passed_on_whole(
    service: Service, finished: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(short_path, "_SECONDS", 0.01)
    body = json.dumps({"q": "ab", **DE_EN}).encode()
    parts: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = scope_of(body)
    answering = asyncio.create_task(service.app(scope, parts.get, send))
    parts.put_nowait({"type": "http.request", "body": body[:9], "more_body": True})
    await asyncio.sleep(0.05)
    parts.put_nowait({"type": "http.request", "body": body[9:], "more_body": False})
    await answering
    assert json.loads(sent[1]["body"])["translatedText"] == "AB"
    assert finished == []


async def test_model_that_is_replaced_meanwhile_is_prepared_again(
    client: httpx.AsyncClient,
    service: Service,
    finished: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    catalogues = []
    prepare = short_path.prepare_plain

    async def reloading(request: Any, catalogue: Any, reader: Any) -> Any:
        prepared = await prepare(request, catalogue, reader)
        if not catalogues:
            for model in catalogue.models:
                object.__setattr__(
                    model, "manifest", model.manifest.model_copy(update={"version": "2"})
                )
        catalogues.append(catalogue)
        return prepared

    monkeypatch.setattr(short_path, "prepare_plain", reloading)
    response = await client.post("/translate", json={"q": "ab", **DE_EN})
    assert response.json()["translatedText"] == "AB"
    assert response.headers["x-model-version"] == "2"
    assert (len(catalogues), len(finished)) == (2, 1)


@pytest.mark.parametrize("ending", ["answered", "failed", "late", "hung up"])
async def test_request_leaves_nothing_to_the_garbage_collector(
    service: Service, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    late = (b"x-request-timeout", b"0.05") if ending == "late" else (b"x", b"y")

    async def ask(text: str) -> int:
        body = json.dumps({"q": [text, "ef"], **DE_EN}).encode()
        messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        messages.put_nowait({"type": "http.request", "body": body, "more_body": False})
        if ending == "hung up":
            messages.put_nowait({"type": "http.disconnect"})
        statuses = []

        async def send(message: Any) -> None:
            statuses.append(message.get("status"))

        await service.app(scope_of(body, late), messages.get, send)
        for _ in range(3):
            await asyncio.sleep(0)
        return statuses[0] if statuses else 499

    await ask("ab. cd")
    model = next(m for m in service.repository.catalogue.models if m.name == "shout-de-en")
    if ending == "failed":
        await model.engine.close()
    with ExitStack() as held:
        if ending in ("late", "hung up"):
            held.enter_context(model.engine.gathering())
        with without_cycles():
            status = await ask("gh. ij")
    expected = {"answered": 200, "failed": 503, "late": 504, "hung up": 499}
    assert status == expected[ending]


async def test_request_whose_texts_wait_for_a_thread_is_refused_at_its_deadline(
    client: httpx.AsyncClient, service: Service, finished: list[Any]
) -> None:
    busy = threading.Event()
    pool = service.translator.reader.pool
    work = [pool.run(["x" * 5000], lambda _: busy.wait(WAIT_SECONDS)) for _ in range(2)]
    async with asyncio.TaskGroup() as group:
        for each in work:
            group.create_task(each)
        try:
            response = await client.post(
                "/translate",
                json={"q": "wort. " * 700, **DE_EN},
                headers={"x-request-timeout": "0.1"},
            )
        finally:
            busy.set()
    assert response.status_code == 504
    assert finished == []


async def test_texts_that_need_a_thread_are_prepared_on_the_short_path(
    client: httpx.AsyncClient, finished: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_pool, "_CHARACTERS_ON_THE_LOOP", 100)
    texts = ["wort. " * 10] * 2
    response = await client.post("/translate", json={"q": texts, **DE_EN})
    assert response.status_code == 200, response.text
    assert response.json()["translatedText"] == [text.upper() for text in texts]
    assert len(finished) == 1


async def test_request_whose_translation_fails_after_decoding_is_not_charged(
    client: httpx.AsyncClient, finished: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failing(*_: object) -> None:
        raise BackendFailed("the attention failed")

    async def used() -> int:
        characters: int = (await client.get("/v2/usage")).json()["character_count"]
        return characters

    with monkeypatch.context() as failure:
        failure.setattr(leg, "final_text", failing)
        short, route = await both_answers(client, "/translate", {"q": "abc", **DE_EN})
    assert (short.status_code, route.status_code) == (500, 500)
    assert (len(finished), await used()) == (1, 0)
    await both_answers(client, "/translate", {"q": "abc", **DE_EN})
    assert await used() == 6


async def test_model_is_kept_until_a_request_is_finished(
    client: httpx.AsyncClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = service.repository.catalogue.named("shout-de-en")
    leases = []

    async def counted(prepared: Any, decoded: Any) -> Any:
        leases.append(model.leases)
        return await finish_plain(prepared, decoded)

    monkeypatch.setattr(metering, "finish_plain", counted)
    assert (await client.post("/translate", json={"q": "abc", **DE_EN})).status_code == 200
    assert leases == [1]


async def test_rate_limit_is_that_of_the_route(settings: Any) -> None:
    async with connected(settings, requests_per_minute=2) as client:
        answers = [await client.post("/translate", json={"q": "abc", **DE_EN}) for _ in range(2)]
        slowed = await client.post("/translate", json={"q": "a", **DE_EN})
    assert [each.status_code for each in (*answers, slowed)] == [200, 200, 429]
    assert int(slowed.headers["retry-after"]) >= 1


@given(
    st.text(max_size=60),
    st.fixed_dictionaries(
        {},
        optional={
            "beam_size": st.integers(1, 4),
            "num_hypotheses": st.integers(1, 3),
            "length_penalty": st.floats(0, 2),
            "return_scores": st.booleans(),
            "min_decoding_length": st.integers(0, 9),
            "disable_unk": st.booleans(),
        },
    ),
)
def test_any_text_and_options_get_the_answer_of_the_route(text: str, options: Any) -> None:
    async def ask() -> None:
        body = {"q": text, **DE_EN, **options}
        short, route = await both_answers(shared["client"], "/translate", body)
        assert (short.status_code, short.json()) == (route.status_code, route.json())

    shared["runner"].run(ask())


shared: dict[str, Any] = {}


@pytest.fixture(scope="module", autouse=True)
def service_of_many_examples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One event loop and service for all examples of the property."""
    directory = tmp_path_factory.mktemp("service")
    put_bundle(directory / "bundles", "shout-de-en", "de", "en")
    settings = Settings(
        bundles=directory / "bundles", slots=8, max_beam_size=4, state=directory / "state"
    )
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        service = runner.run(stack.enter_async_context(running(settings, load_shouting)))
        client = runner.run(stack.enter_async_context(client_of(service.app)))
        shared.update(runner=runner, service=service, client=client)
        yield
        runner.run(stack.aclose())
        shared.clear()
