"""Every feature of the API on a served model whose decoder is recurrent (SSRU).

Its weights are random and its words are w0, w1 …: answers are compared with what was asked for.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.loading.loader import load_model
from service.settings import Settings
from tests.support.asgi import connected
from tests.support.networks import NETWORKS, random_network, write_bundle

TEXT = "w5 w6 w7 w8 w9"
PAIR = {"source": "de", "target": "en"}
GIVEN = {**PAIR, "source_text": TEXT, "target_text": "w4 w5"}


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("bundles")
    write_bundle(random_network(NETWORKS["ssru"]), directory / "ssru", name="ssru")
    return directory


@pytest.fixture
async def client(bundles: Path, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    settings = Settings(bundles=bundles, state=tmp_path / "state", device="cpu", threads=1)
    async with connected(settings, load_model) as client:
        yield client


async def answered(client: httpx.AsyncClient, path: str = "/translate", **fields: object) -> Any:
    texts = {} if "source_text" in fields else {"q": TEXT, **PAIR}
    answer = await client.post(path, json=texts | fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_options_of_decoding(client: httpx.AsyncClient) -> None:
    plain = (await answered(client))["translatedText"]
    several = await answered(client, num_hypotheses=3, return_scores=True)
    assert several["scores"] == sorted(several["scores"], reverse=True)
    assert len({several["translatedText"], *several["alternatives"]}) == 3
    tokens = await answered(client, return_alternatives=True, num_hypotheses=3)
    assert len({text.split()[0] for text in (plain, *tokens["alternatives"])}) == 3
    confidence = (await answered(client, confidence=True))["confidence"]
    # The last word of a translation of the greatest length may be missing.
    assert [word["text"] for word in confidence["words"]] == plain.split()[:-1]
    for beginning in ("w9 w1", plain[:7]):
        steered = (await answered(client, prefix=beginning))["translatedText"]
        assert steered.startswith(beginning)
    biased = await answered(client, target_prefix="w9 w7", prefix_bias_beta=0.9)
    assert biased["translatedText"].startswith("w9 w7")
    once = (await answered(client, no_repeat_ngram_size=2))["translatedText"].split()
    pairs = list(itertools.pairwise(once))
    assert len(pairs) == len(set(pairs))


async def test_terms_markup_and_streams(client: httpx.AsyncClient) -> None:
    assert "puppy" in (await answered(client, glossary={"w6": "puppy"}))["translatedText"]
    marked = await answered(client, q=f"<p><b>w5 w6</b> {TEXT}</p>", format="html")
    assert marked["translatedText"].startswith("<p>") and "</b>" in marked["translatedText"]
    streamed = await client.post("/translate", json={"q": TEXT, **PAIR, "stream": True})
    assert (await answered(client))["translatedText"] in streamed.text.split("event: done")[1]


async def test_documents(client: httpx.AsyncClient) -> None:
    files = {"file": ("a.txt", TEXT.encode())}
    answer = await client.post("/translate_file", files=files, data=PAIR)
    assert answer.status_code == 200, answer.text
    result = await client.get(answer.json()["translatedFileUrl"])
    assert result.text == (await answered(client))["translatedText"]


async def test_likely_words_and_scores(client: httpx.AsyncClient) -> None:
    words = (await answered(client, "/alternatives", position=0, limit=3))["alternatives"]
    assert len({each["word"] for each in words}) == 3
    assert all(each["translation"].startswith(each["word"]) for each in words)
    (score,) = (await answered(client, "/score", **GIVEN))["scores"]
    assert score["log_prob"] == pytest.approx(sum(each["log_prob"] for each in score["tokens"]))


async def test_search_and_maps_but_for_those_it_lacks(client: httpx.AsyncClient) -> None:
    found = await answered(client, attention=True)
    search = await client.get(f"/translations/{found['id']}/search")
    assert search.json()["reproduced"]
    for kind in ("cross", "encoder"):
        maps = (await answered(client, "/attention", kind=kind, layer="all", **GIVEN))["maps"]
        for row in maps[0]["weights"]:
            assert sum(row) == pytest.approx(1, abs=1e-4)
    alignment = (await answered(client, "/attention", alignment=True, **GIVEN))["alignment"]
    assert [word["text"] for word in alignment["target_words"]] == ["w4", "w5"]
    refused = await client.post("/attention", json={**GIVEN, "kind": "decoder"})
    assert refused.status_code == 400
    assert "recurrent (SSRU)" in refused.json()["error"]
