"""Requests of the clients, and the results they read from responses."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import numpy as np
import pytest

from dragoman import (
    AsyncClient,
    Client,
    Confidence,
    Detection,
    Retries,
    SentenceConfidence,
    Timings,
    TranslateOptions,
    TranslationConfidence,
    WordConfidence,
)
from service.api.libretranslate.translate import TranslateParameters
from tests.client.support import Kind, Service, ask, ok, translate

OF_FIELDS = {"q", "source", "target", "api_key", "stream"}
"""Fields of the service that the client sets by other means."""


TERMS = {"Hund": "hound"}


def test_translate_sends_documented_request(kind: Kind) -> None:
    service = Service([ok()])
    translation = ask(
        kind,
        service,
        lambda client: client.translate(
            "Ein Hund.", source="de", target="en", beam_size=1, glossary=MappingProxyType(TERMS)
        ),
        api_key="secret",
    )
    assert service.bodies == [
        {"q": "Ein Hund.", "source": "de", "target": "en", "beam_size": 1, "glossary": TERMS}
    ]
    assert str(service.requests[0].url) == "http://127.0.0.1:8000/translate"
    assert service.requests[0].headers["x-api-key"] == "secret"
    assert translation.text == "A dog."
    assert (translation.source, translation.target) == ("de", "en")
    assert (translation.model, translation.finish_reason) == ("de-en", "complete")
    assert (translation.truncated, translation.score, translation.number) == (False, None, 0)


@pytest.mark.parametrize("wanted", [False, True])
def test_score_has_the_confidence_of_words_if_requested(kind: Kind, wanted: bool) -> None:
    answer: dict[str, Any] = {"log_prob": -0.5, "score": -0.25, "perplexity": 1.3, "tokens": []}
    word: dict[str, Any] = {"text": "Hi", "start": 0, "end": 2, "probability": 0.5, "entropy": 0.7}
    if wanted:
        answer["confidence"] = {"words": [word], "mean": 0.5, "lowest": 0.5}
    service = Service([httpx.Response(200, json={"scores": [answer]})])
    score = ask(
        kind,
        service,
        lambda client: client.score("Hallo", "Hi", source="de", target="en", confidence=wanted),
    )
    assert service.bodies[0].get("confidence", False) == wanted
    expected = Confidence((WordConfidence(**word),), 0.5, 0.5) if wanted else None
    assert score.confidence == expected


CONFIDENCE = {
    "words": [{"text": "A", "start": 0, "end": 1, "probability": 0.5, "entropy": None}],
    "mean": 0.5,
    "lowest": 0.5,
    "sentences": [{"start": 0, "end": 6, "mean": 0.5, "lowest": 0.5}],
}


def test_list_of_texts_returns_list_of_translations(kind: Kind) -> None:
    answer = {
        "translatedText": ["A dog.", "A cat."],
        "detectedLanguage": [
            {"confidence": 99.9, "language": "de"},
            {"confidence": 92.2, "language": "fr"},
        ],
        "alternatives": [["The dog."], []],
        "model": ["de-en", None],
        "finish_reason": ["complete", "length"],
        "truncated": [False, True],
        "scores": [[-0.2, -0.3], [None]],
        "confidence": [CONFIDENCE, None],
        "timings": {"preparing": 1.0, "queued": 2.0, "decoding": 3.0, "total": 6.5},
        "id": "abc",
        "of_tomorrow": 1,
    }
    service = Service([httpx.Response(200, json=answer)])
    dog, cat = ask(kind, service, lambda client: client.translate(("Hund", "chat"), target="en"))
    assert service.bodies[0]["q"] == ["Hund", "chat"]
    assert service.bodies[0]["source"] == "auto"
    assert (dog.detected, cat.detected) == (Detection("de", 99.9), Detection("fr", 92.2))
    assert (dog.source, cat.source) == ("de", "fr")
    assert (dog.alternatives, cat.alternatives) == (("The dog.",), ())
    assert (dog.scores, dog.score) == ((-0.2, -0.3), -0.2)
    assert (dog.confidence, cat.confidence) == (
        TranslationConfidence(
            (WordConfidence("A", 0, 1, 0.5, None),), 0.5, 0.5, (SentenceConfidence(0, 6, 0.5, 0.5),)
        ),
        None,
    )
    assert (cat.scores, cat.score, cat.truncated, cat.model) == ((None,), None, True, None)
    assert dog.timings == Timings(1.0, 2.0, 3.0, 6.5)
    assert [(each.id, each.number) for each in (dog, cat)] == [("abc", 0), ("abc", 1)]


def test_client_options_match_service_options() -> None:
    assert set(TranslateOptions.__optional_keys__) == (
        set(TranslateParameters.model_fields) - OF_FIELDS
    )


def test_calls_that_cannot_be_right_are_refused_before_a_request_is_sent(kind: Kind) -> None:
    calls: list[tuple[type[Exception], str, Callable[[Any], Any]]] = [
        (TypeError, "no option 'beam'", lambda c: c.translate("Hund", target="en", beam=1)),
        (TypeError, "no option 'beam'", lambda c: c.stream("Hund", target="en", beam=1)),
        (TypeError, "no option 'beam'", lambda c: c.translate_many([], target="en", beam=1)),
        (TypeError, "many texts", lambda c: c.translate_many("Ein Hund.", target="en")),
        *(
            (ValueError, "at least", lambda c, s=size: c.translate_many([], target="en", **{s: 0}))
            for size in ("concurrency", "texts_per_request", "characters_per_request")
        ),
        (ValueError, "no text", lambda c: c.translate([], target="en")),
        (ValueError, "JSON", lambda c: c.translate("a", target="en", patience=float("nan"))),
        (ValueError, "name is missing", lambda c: c.translate_file(b"x", target="en")),
    ]
    for error, message, call in calls:
        with pytest.raises(error, match=message):
            ask(kind, Service([]), call)


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_invalid_settings_are_refused(client: Any) -> None:
    for url in ("127.0.0.1:8000", "ftp://host", "http://", "http://host?x=1", "http://host:port"):
        with pytest.raises(ValueError, match="address"):
            client(url)
    for timeout in (0, -1, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="timeout"):
            client(timeout=timeout)
    negative: list[dict[str, Any]] = [{"limit": -1}, {"base": -0.5}, {"longest": -1}]
    for wrong in negative:
        with pytest.raises(ValueError, match="negative"):
            Retries(**wrong)
    for key in ("sécret\n", "secret "):
        with pytest.raises(ValueError, match="API key") as caught:
            client(api_key=key)
        assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["Straße\u2028🐕", "half a character: \ud83d", 'a "quoted" \\ text']
)
def test_any_text_arrives_unchanged_at_an_address_with_a_path(kind: Kind, text: str) -> None:
    for url in ("http://host/mt", "http://host/mt/"):
        service = Service([ok()])
        ask(kind, service, lambda client: client.translate(text, target="en"), url=url)
        assert service.bodies[0]["q"] == text
        assert str(service.requests[0].url) == "http://host/mt/translate"


def test_redirections_are_not_followed_with_the_key(kind: Kind) -> None:
    elsewhere = httpx.Response(307, headers={"location": "http://elsewhere/translate"})
    service = Service([elsewhere])
    with pytest.raises(Exception, match="status 307"):
        ask(kind, service, lambda client: client.translate("Hund", target="en"), api_key="secret")
    assert len(service.requests) == 1


def test_given_http_client_keeps_settings_and_stays_open() -> None:
    service = Service([ok()])
    transport = httpx.MockTransport(service)
    with httpx.Client(transport=transport, headers={"x-of-mine": "1"}, auth=("me", "pw")) as http:
        with Client(http_client=http) as client:
            client.translate("Hund", target="en")
        assert not http.is_closed
    assert service.requests[0].headers["x-of-mine"] == "1"
    assert service.requests[0].headers["authorization"].startswith("Basic ")


def test_document_is_downloaded_from_the_clients_url(kind: Kind, tmp_path: Path) -> None:
    path = tmp_path / "schnee.txt"
    path.write_text("Ein Hund.")
    address = {"translatedFileUrl": "http://inside:1/download_file/1.a%20b.txt"}
    files: list[dict[str, Any]] = [{"file": path}, {"file": b"Ein Hund.", "name": "schnee.txt"}]
    for file in files:
        service = Service([httpx.Response(200, json=address), httpx.Response(200, text="A dog.")])

        def translate(client: Any, file: dict[str, Any] = file) -> Any:
            return client.translate_file(**file, target="en", model="m")

        translated = ask(kind, service, translate, url="http://outside/mt")
        assert translated == b"A dog."
        assert b'name="file"; filename="schnee.txt"' in service.requests[0].content
        assert b"Ein Hund." in service.requests[0].content
        assert b'name="model"\r\n\r\nm' in service.requests[0].content
        fetched = str(service.requests[1].url)
        assert fetched == "http://outside/mt/download_file/1.a%20b.txt"


def npy(array: Any) -> httpx.Response:
    file = io.BytesIO()
    np.save(file, array)
    return httpx.Response(200, content=file.getvalue())


def labels(layers: Any = "mean") -> httpx.Response:
    one = {"layer": 2, "head": "mean", "weights": [[0.5, 0.5], [0.3, 0.7]]}
    about = {"model": "de-en", "kind": "cross", "rows": ["a", "b"], "columns": ["x", "y"]}
    return httpx.Response(200, json={**about, "layers": layers, "heads": "mean", "maps": [one]})


@pytest.mark.parametrize(
    ("layer", "head", "expected", "labelled", "shape"),
    [
        (None, "mean", (None, "mean"), ((2,), "mean"), (1, 1, 2, 2)),
        ("all", [3, 1], ("all", "3,1"), ((0, 1, 2), (1, 3)), (3, 2, 2, 2)),
        (1, "all", ("1", "all"), ((1,), (0, 1)), (1, 2, 2, 2)),
        (np.int64(2), [np.int64(1), 0], ("2", "1,0"), ((2,), (0, 1)), (1, 2, 2, 2)),
        ("mean", 0, ("mean", "0"), ("mean", (0,)), (1, 1, 2, 2)),
    ],
)
def test_attention_is_exact_and_labelled(
    kind: Kind, layer: Any, head: Any, expected: Any, labelled: Any, shape: tuple[int, ...]
) -> None:
    exact = np.full(shape, 1 / 3, np.float32)
    service = Service([npy(exact), labels([2] if layer is None else "mean")])
    found = ask(
        kind, service, lambda client: client.attention("a/b", layer=layer, head=head, text=4)
    )
    assert service.requests[0].url.raw_path.startswith(b"/translations/a%2Fb/attention?")
    query = service.requests[0].url.params
    assert (query.get("layer"), query["head"], query["text"]) == (*expected, "4")
    assert service.requests[1].url.params["text"] == "4"
    assert found.weights.dtype == np.float32
    assert np.array_equal(found.weights, exact)
    assert (found.layers, found.heads) == labelled
    assert (found.rows, found.columns, found.model) == (("a", "b"), ("x", "y"), "de-en")


def test_attention_of_translation_without_id_is_refused(kind: Kind) -> None:
    translation = ask(kind, Service([ok()]), translate)
    with pytest.raises(ValueError, match="attention=True"):
        ask(kind, Service([]), lambda client: client.attention(translation))


def test_not_ready_is_a_result_and_proxy_503_is_retried(kind: Kind) -> None:
    body = {"status": "draining", "reasons": ["stopping"], "models": ["m"], "failed": {"b": "bad"}}
    proxy = httpx.Response(503, text="no upstream")
    service = Service([proxy, httpx.Response(503, json=body)])
    readiness = ask(kind, service, lambda client: client.ready())
    assert not readiness.ready
    assert readiness.reasons == ("stopping",)
    assert (readiness.models, readiness.failed) == (("m",), {"b": "bad"})


def test_no_call_of_the_asynchronous_client_outlasts_its_timeout() -> None:
    async def hang(request: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    async def talk() -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(hang))
        async with http, AsyncClient(http_client=http, timeout=0.01) as client:
            with pytest.raises(Exception, match=r"0\.01"):
                await client.translate("Hund", target="en")

    asyncio.run(talk())
