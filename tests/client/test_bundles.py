"""Both clients against a service with the committed bundles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from dragoman import AsyncClient, Client, TranslateOptions

pytestmark = pytest.mark.slow

CAPTION = "Zwei junge Männer spielen Fußball auf einer Wiese. Ein Hund läuft durch den Schnee."


@pytest.fixture(scope="module")
def client(bundles_url: str) -> Iterator[Client]:
    with Client(bundles_url) as client:
        yield client


@pytest.fixture(scope="module")
def http(bundles_url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=bundles_url) as http:
        yield http


def answered(response: httpx.Response) -> Any:
    assert response.status_code == 200, response.text
    return response.json()


async def test_translation_equals_http_response(client: Client, http: httpx.Client) -> None:
    wanted: TranslateOptions = {"alternatives": 2, "return_scores": True, "length_penalty": 0.6}
    fields = {"q": CAPTION, "source": "auto", "target": "en", **wanted}
    answer = answered(http.post("/translate", json=fields))
    async with AsyncClient(str(http.base_url)) as waiting:
        found = [
            client.translate(CAPTION, target="en", **wanted),
            await waiting.translate(CAPTION, target="en", **wanted),
        ]
    for translation in found:
        assert translation.text == answer["translatedText"]
        assert list(translation.alternatives) == answer["alternatives"]
        assert list(translation.scores) == answer["scores"]
        assert translation.model == answer["model"] == "general-de-en"
        assert translation.detected is not None
        assert translation.detected.language == translation.source == "de"
        assert translation.detected.confidence == answer["detectedLanguage"]["confidence"]


@pytest.mark.parametrize("kind", ["cross", "encoder", "decoder"])
def test_attention_equals_endpoint_and_that_of_given_texts(
    client: Client, http: httpx.Client, kind: Any
) -> None:
    pair: dict[str, Any] = {"source": "de", "target": "en"}
    translation = client.translate(["Ein Hund.", CAPTION], **pair, attention=True)[1]
    found = client.attention(translation, kind=kind, layer="all", head="all", sentence=1)
    place = {"text": 1, "sentence": 1, "kind": kind, "layer": "all", "head": "all"}
    answer = answered(http.get(f"/translations/{translation.id}/attention", params=place))
    layers = 6 if kind == "encoder" else 2
    assert found.weights.shape == (layers, 4, len(answer["rows"]), len(answer["columns"]))
    maps = np.array([each["weights"] for each in answer["maps"]]).reshape(found.weights.shape)
    assert np.allclose(found.weights, maps, atol=1e-6)
    for name in ("rows", "columns", "layers", "heads"):
        assert list(getattr(found, name)) == answer[name]
    some = client.attention(translation, kind=kind, layer=[1, 0], head=3, sentence=1)
    assert (some.layers, some.heads) == ((0, 1), (3,))
    assert np.array_equal(some.weights, found.weights[[0, 1], 3:])

    [leg] = client.legs(translation)
    texts = leg.sentences[1].source, leg.sentences[1].target
    given = client.attention_of(*texts, kind=kind, layer="all", head="all", **pair)
    assert np.allclose(given.weights, found.weights, atol=1e-5)
    assert client.alignment(translation, sentence=1) == client.alignment_of(*texts, **pair)
    score = client.score(*texts, **pair)
    assert score.score == pytest.approx(leg.sentences[1].score, abs=1e-3)


def test_search_has_the_path_to_the_translation(client: Client) -> None:
    texts = ["Zwei Hunde.", "Eine Frau liest. Ein Hund läuft durch den Schnee."]
    translation = client.translate(texts, source="de", target="en", attention=True)[1]
    search = client.search(translation, sentence=1)
    [leg] = client.legs(translation)
    assert search.source == leg.sentences[1].source_pieces
    assert tuple(each.piece for each in search.path) == leg.sentences[1].target_pieces
    assert search.reproduced
    assert {len(step) for step in search.steps} == {8}
    assert {each.fate for each in search.path} == {"kept", "finished"}
