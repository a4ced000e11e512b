"""Work on large requests that must not run on the event loop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import httpx
import pytest

from service.api import openapi
from service.api.deepl import glossaries
from service.api.fields import parameters
from service.api.inspect import attention
from service.inspection import inspector as inspection
from service.settings import Settings
from service.translation import translator
from tests.support.asgi import connected
from tests.support.loop_monitor import MOST_SECONDS, monitored

FORM = {"content-type": "application/x-www-form-urlencoded"}


def noting_threads(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str
) -> list[threading.Thread]:
    """The threads that a function of ``module`` ran in, one for each call."""
    threads: list[threading.Thread] = []
    function: Callable[..., Any] = getattr(module, name)

    def noted(*arguments: Any, **options: Any) -> Any:
        threads.append(threading.current_thread())
        return function(*arguments, **options)

    monkeypatch.setattr(module, name, noted)
    return threads


async def test_long_form_is_parsed_in_a_thread(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = noting_threads(monkeypatch, parameters, "form_pairs")
    form = "q=" + "%41" * 6000 + "&source=de&target=en"
    response = await client.post("/translate", content=form, headers=FORM)
    # The words of this text are too long for the model.
    assert response.status_code in (400, 413)
    query, body = threads
    assert query is threading.current_thread()
    assert body is not query


def multipart(fields: list[tuple[str, str]]) -> dict[str, Any]:
    """Content and headers of a multipart request."""
    parts = [
        f'--b\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields
    ]
    headers = {"content-type": "multipart/form-data; boundary=b"}
    return {"content": "".join([*parts, "--b--\r\n"]), "headers": headers}


@pytest.mark.parametrize(("fields", "in_thread"), [(10, False), (800, True)])
async def test_multipart_form_of_many_fields_is_parsed_in_a_thread(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, fields: int, in_thread: bool
) -> None:
    threads = noting_threads(monkeypatch, parameters, "_texts")
    languages = [("q", "hallo"), ("source", "de"), ("target", "en")]
    response = await client.post("/translate", **multipart([*languages, *[("x", "y")] * fields]))
    assert response.json()["translatedText"] == "HALLO"
    (thread,) = threads
    assert (thread is not threading.current_thread()) == in_thread


async def test_document_with_more_than_200_fields_is_refused(
    client: httpx.AsyncClient,
) -> None:
    response = await client.post("/translate_file", **multipart([("x", "y")] * 201))
    assert response.status_code == 400
    assert "Maximum number of fields is 200." in response.json()["error"]


async def test_long_multipart_form_that_cannot_be_read_is_refused(
    client: httpx.AsyncClient,
) -> None:
    boundless: dict[str, Any] = {
        "content": "a" * 20_000,
        "headers": {"content-type": "multipart/form-data"},
    }
    response = await client.post("/translate", **boundless)
    assert response.status_code == 400
    assert "Missing boundary" in response.json()["error"]
    response = await client.post("/translate", files={"q": ("a.txt", b"a" * 20_000)})
    assert response.status_code == 400
    assert "q parameter is a file; send it as text" in response.json()["error"]


async def test_entries_of_a_glossary_are_parsed_in_a_thread(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = noting_threads(monkeypatch, glossaries, "parse")
    fields = {"name": "a", "source_lang": "DE", "target_lang": "EN", "entries_format": "tsv"}
    response = await client.post("/v2/glossaries", json={**fields, "entries": "wiese\tLAWN"})
    assert response.status_code == 201
    (thread,) = threads
    assert thread is not threading.current_thread()


@pytest.mark.parametrize(
    ("version", "accept"), [(2, "text/tab-separated-values"), (2, "text/csv"), (3, "*/*")]
)
async def test_entries_of_a_glossary_are_rendered_in_a_thread(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, version: int, accept: str
) -> None:
    fields = {"name": "a", "source_lang": "DE", "target_lang": "EN", "entries_format": "tsv"}
    created = await client.post("/v2/glossaries", json={**fields, "entries": "wiese\tLAWN"})
    threads = noting_threads(monkeypatch, glossaries, "render")
    path = f"/v{version}/glossaries/{created.json()['glossary_id']}/entries"
    response = await client.get(path, headers={"accept": accept})
    assert response.status_code == 200
    (thread,) = threads
    assert thread is not threading.current_thread()


async def test_kept_translation_is_described_in_a_thread(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"q": ["ja", "das"], "source": "de", "target": "en", "attention": True}
    identifier = (await client.post("/translate", json=body)).json()["id"]
    of_pieces = noting_threads(monkeypatch, inspection, "_leg_view")
    of_answers = noting_threads(monkeypatch, attention, "text_answer")
    response = await client.get(f"/translations/{identifier}")
    assert len(response.json()["texts"]) == 2
    assert len(of_pieces) == len(of_answers) == 2
    assert threading.current_thread() not in of_pieces + of_answers


@pytest.mark.parametrize("confidence", [False, True])
async def test_scores_are_serialised_in_a_thread(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, confidence: bool
) -> None:
    threads = noting_threads(monkeypatch, attention, "score_answer")
    texts = {"source_text": ["ja", "das"], "target_text": ["JA", "DAS"]}
    body = {"source": "de", "target": "en", "confidence": confidence, **texts}
    response = await client.post("/score", json=body)
    assert ["confidence" in each for each in response.json()["scores"]] == [confidence] * 2
    assert len(threads) == 2
    assert threading.current_thread() not in threads


async def test_openapi_document_is_built_once_in_a_thread(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = noting_threads(monkeypatch, openapi, "document_of")
    first, second = [await client.get("/openapi.json") for _ in range(2)]
    assert first.content == second.content
    (thread,) = threads
    assert thread is not threading.current_thread()


@pytest.mark.parametrize("stream", [False, True])
async def test_equal_sentences_of_a_request_are_written_once_and_hold_no_turn_of_the_loop(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    written = noting_threads(monkeypatch, translator, "translated_sentence")
    lines = "".join(f"wort{chr(97 + number % 20)}<br>" for number in range(9_900))
    body = {"q": lines, "source": "de", "target": "en", "format": "html", "stream": stream}
    limits = {"max_characters": 100_000, "max_body_bytes": 1 << 20, "max_queue_tokens": 100_000}
    async with connected(settings, **limits) as client:
        with monitored(MOST_SECONDS / 3) as blocking:
            response = await client.post("/translate", json=body)
    assert response.status_code == 200
    # The first sentence of a text is one of its own, because only that may have a prefix.
    assert len(written) == 21
    assert blocking == []
