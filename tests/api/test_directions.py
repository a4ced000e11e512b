"""Tests of a bundle with two directions over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from service.settings import Settings
from tests.support.asgi import connected
from tests.support.directed import SOFT_PIECE, load_directed, two_directions
from tests.support.shouting import put_bundle


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    bundles = tmp_path / "bundles"
    put_bundle(bundles, "french", "fr", "en")
    (bundles / "both").mkdir()
    (bundles / "both" / "manifest.json").write_text(two_directions().to_json(), encoding="utf-8")
    settings = Settings(bundles=bundles, slots=8, max_beam_size=4, state=tmp_path / "state")
    async with connected(settings, load_directed) as client:
        yield client


async def translated(client: httpx.AsyncClient, text: str, source: str, target: str) -> str:
    response = await client.post("/translate", json={"q": text, "source": source, "target": target})
    assert response.status_code == 200, response.text
    answer: str = response.json()["translatedText"]
    return answer


async def test_both_directions_translate_independently(
    client: httpx.AsyncClient,
) -> None:
    texts = [f"Zwei Hunde {n}" for n in range(5)]
    # The second pass is served from the result cache.
    for _ in range(2):
        loud, soft = await asyncio.gather(
            asyncio.gather(*(translated(client, text, "de", "en") for text in texts)),
            asyncio.gather(*(translated(client, text, "en", "de") for text in texts)),
        )
        assert loud == [text.upper() for text in texts]
        assert soft == [text.lower() for text in texts]


async def test_deepl_api_translates_both_directions(client: httpx.AsyncClient) -> None:
    for source, target, text in (("DE", "EN-US", "JA"), ("EN", "DE", "ja")):
        body = {"text": ["Ja"], "source_lang": source, "target_lang": target}
        response = await client.post("/v2/translate", json=body)
        assert response.json()["translations"][0]["text"] == text


async def test_a_model_lists_its_directions_and_each_language_its_targets(
    client: httpx.AsyncClient,
) -> None:
    models = (await client.get("/models")).json()["models"]
    assert {model["name"]: model["directions"] for model in models} == {
        "both": [{"source": "de", "target": "en"}, {"source": "en", "target": "de"}],
        "french": [{"source": "fr", "target": "en"}],
    }
    languages = (await client.get("/languages")).json()
    assert {each["code"]: each["targets"] for each in languages} == {
        "de": ["de", "en"],
        "en": ["de", "en"],
        "fr": ["de", "en", "fr"],
    }


async def test_a_pivot_may_use_a_model_of_several_directions(client: httpx.AsyncClient) -> None:
    assert await translated(client, "Oui", "fr", "de") == "oui"


async def test_missing_direction_is_refused_with_the_available_ones(
    client: httpx.AsyncClient,
) -> None:
    body = {"q": "Oui", "source": "fr", "target": "en", "model": "both"}
    response = await client.post("/translate", json=body)
    assert response.status_code == 400
    assert response.json()["error"].endswith("on offer with both: de-en, en-de")


async def test_attention_includes_the_direction_token(client: httpx.AsyncClient) -> None:
    body = {"q": "Ja Nein", "source": "en", "target": "de", "attention": True}
    answer = (await client.post("/translate", json=body)).json()
    assert answer["translatedText"] == "ja nein"
    maps = (await client.get(f"/translations/{answer['id']}/attention")).json()
    assert maps["rows"] == [SOFT_PIECE, *"ja nein", "</s>"]
    assert maps["columns"] == [SOFT_PIECE, *"Ja Nein", "</s>"]
    alignment = await client.get(
        f"/translations/{answer['id']}/alignment", params={"format": "pharaoh"}
    )
    assert alignment.text.strip() == "0-0 1-1"


async def test_metrics_name_the_languages_of_each_side(client: httpx.AsyncClient) -> None:
    exposition = (await client.get("/metrics")).text
    (info,) = [
        line
        for line in exposition.splitlines()
        if line.startswith("nmt_model_info{") and 'model="both"' in line
    ]
    assert 'source="de,en"' in info
    assert 'target="en,de"' in info
