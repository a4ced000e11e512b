"""Tests of ``POST /alternatives``, with a model whose second choice is the letter of the text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from service.settings import Settings
from service.text.types import Detection
from service.translation.request_reader import RequestReader
from tests.api import answers
from tests.api.answers import DE_EN, answered, as_ascii_json
from tests.support.asgi import connected
from tests.support.shouting import load_shouting, put_bundle

pytestmark = pytest.mark.anyio


async def found(client: httpx.AsyncClient, **fields: Any) -> Any:
    return await answered(client.post("/alternatives", json={**DE_EN, **fields}))


async def refused(client: httpx.AsyncClient, **fields: Any) -> str:
    return await answers.refused(client.post("/alternatives", **as_ascii_json({**DE_EN, **fields})))


async def test_words_are_ranked_by_probability_each_with_its_translation(
    client: httpx.AsyncClient,
) -> None:
    answer = await found(client, q="zu ab xy", position=3)
    assert (answer["translation"], answer["position"]) == ("ZU AB XY", 3)
    words = [each["word"] for each in answer["alternatives"]]
    assert set(words) == {"AB", "aB", "Ab", "ab"}
    assert words[0] == "AB"
    probabilities = [each["probability"] for each in answer["alternatives"]]
    assert probabilities == sorted(probabilities, reverse=True)
    assert sum(probabilities) == pytest.approx(1, abs=0.01)
    for each in answer["alternatives"]:
        assert each["translation"] == f"ZU {each['word']} XY"


async def test_limit_and_least_probability_are_kept(client: httpx.AsyncClient) -> None:
    answer = await found(client, q="ab", position=0, limit=2)
    assert len(answer["alternatives"]) == 2
    answer = await found(client, q="ab", position=0, min_probability=0.5)
    assert [each["word"] for each in answer["alternatives"]] == ["AB"]


async def test_only_the_sentence_with_the_place_changes(client: httpx.AsyncClient) -> None:
    given = "Kept as it is. \n\nZU AB.\nAlso kept"
    at = given.index("AB")
    answer = await found(
        client, q="eins zwei. \n\nzu ab.\ndrei", translation=given, position=at, limit=3
    )
    assert answer["alternatives"][0]["word"] == "AB"
    for each in answer["alternatives"]:
        assert each["translation"] == given.replace("AB", each["word"])


async def test_words_before_the_place_are_kept(client: httpx.AsyncClient) -> None:
    answer = await found(client, q="zu ab", translation="Qq?ß AB", position=5)
    assert all(each["translation"].startswith("Qq?ß ") for each in answer["alternatives"])


async def test_language_is_detected_once(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, detect = [], RequestReader.detect

    def counted(self: RequestReader, plain: str, *arguments: Any) -> Detection:
        texts.append(plain)
        return detect(self, plain, *arguments)

    monkeypatch.setattr(RequestReader, "detect", counted)
    text = "Das Wetter ist heute schön."
    answer = await found(client, q=text, source="auto", position=0)
    assert texts == [text]
    assert answer["detectedLanguage"]["language"] == "de"
    assert answer["model"] == "shout-de-en"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"position": 1}, "position 1 is not the beginning of a word; words begin at 0, 3"),
        ({"position": 5}, "position 5 is not"),
        ({"position": -1}, "position parameter"),
        ({"position": True}, "position parameter"),
        ({"position": 0, "limit": 0}, "limit parameter"),
        ({"position": 0, "limit": 21}, "limit parameter"),
        ({"position": 0, "min_probability": 1.1}, "min_probability parameter"),
        ({"position": 0, "translation": ""}, "it has no words"),
        ({"position": 0, "translation": "x" * 6000}, "exceeds text limit"),
        ({"position": 0, "translation": "\ud800"}, "not valid Unicode"),
        ({"position": 0, "target": "de"}, "source and target are both de"),
        (
            {"position": 200, "translation": "x " * 120},
            "the beginning of the translation has 199 tokens in one sentence",
        ),
        (
            {"q": "zu ab\n12", "position": 6},
            "position 6 is in a part of the translation that is copied",
        ),
        (
            {"source": "fr", "target": "de", "position": 0},
            "alternatives need a model that translates fr-de directly",
        ),
    ],
)
async def test_bad_place_or_pivot_is_refused_by_name(
    client: httpx.AsyncClient, fields: dict[str, Any], error: str
) -> None:
    assert error in await refused(client, **{"q": "zu ab", **fields})


async def test_only_the_text_is_charged(tmp_path: Path) -> None:
    put_bundle(tmp_path / "bundles", "shout-de-en", "de", "en")
    settings = Settings(bundles=tmp_path / "bundles", state=tmp_path / "state", api_keys="optional")
    async with connected(settings, load_shouting) as client:
        await found(client, q="zu ab", translation="Ganz anders", position=0)
        assert (await client.get("/v2/usage")).json()["character_count"] == 5
