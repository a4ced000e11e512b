"""Tests of a bundle with two directions over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from service.settings import Settings
from tests.support.asgi import connected
from tests.support.toy import load_directed, put_bundle, two_directions


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    bundles = tmp_path / "bundles"
    put_bundle(bundles, "french", "fr", "en")
    (bundles / "both").mkdir()
    (bundles / "both" / "manifest.json").write_text(two_directions().to_json(), encoding="utf-8")
    settings = Settings(bundles=bundles, slots=8, max_beam_size=4, state=tmp_path / "state")
    async with connected(settings, load_directed) as client:
        yield client


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


async def test_metrics_name_the_languages_of_each_side(client: httpx.AsyncClient) -> None:
    exposition = (await client.get("/metrics")).text
    (info,) = [
        line
        for line in exposition.splitlines()
        if line.startswith("nmt_model_info{") and 'model="both"' in line
    ]
    assert 'source="de,en"' in info
    assert 'target="en,de"' in info
