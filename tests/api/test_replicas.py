"""Two services on one PostgreSQL database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from pydantic import SecretStr

from service.settings import Settings
from service.state.database import Database
from service.state.keys import KeyStore, Limits
from tests.support.asgi import connected
from tests.support.redis import Redis

Replicas = tuple[httpx.AsyncClient, httpx.AsyncClient]


@pytest.fixture
async def replicas(settings: Settings, postgres_address: SecretStr) -> AsyncIterator[Replicas]:
    async with Database(postgres_address, upgrade=True) as database:
        key = await KeyStore(database).add("ann", limits=Limits(characters_per_month=20))
    changes = {"state": postgres_address, "api_keys": "required"}
    async with connected(settings, **changes) as one, connected(settings, **changes) as two:
        for client in (one, two):
            client.headers["authorization"] = f"Bearer {key}"
        yield one, two


async def translated(client: httpx.AsyncClient, text: str) -> int:
    form = {"text": text, "target_lang": "EN", "source_lang": "DE"}
    return (await client.post("/v2/translate", data=form)).status_code


async def test_quota_counts_the_usage_of_both_replicas(replicas: Replicas) -> None:
    one, two = replicas
    assert await translated(one, "x" * 15) == 200
    async with asyncio.timeout(10):
        while (await two.get("/v2/usage")).json()["character_count"] != 15:
            await asyncio.sleep(0.05)
    assert await translated(two, "x" * 10) == 456
    assert await translated(two, "x" * 5) == 200


async def test_requests_a_minute_are_those_of_both_replicas(
    settings: Settings, redis: Redis
) -> None:
    changes = {"redis": redis.address, "requests_per_minute": 5}
    async with connected(settings, **changes) as one, connected(settings, **changes) as two:
        statuses = await asyncio.gather(*(translated(each, "x") for each in 6 * (one, two)))
    assert sorted(statuses) == [200] * 5 + [429] * 7


async def test_sentence_of_one_replica_is_not_decoded_by_the_other(
    settings: Settings, redis: Redis
) -> None:
    changes = {"redis": redis.address}
    async with connected(settings, **changes) as one, connected(settings, **changes) as two:
        asked = {"q": "ja", "source": "de", "target": "en"}
        answers = [(await each.post("/translate", json=asked)).json() for each in (one, two)]
        assert answers[0] == answers[1]
        written = [
            line.rpartition(" ")[2]
            for each in (one, two)
            for line in (await each.get("/metrics")).text.splitlines()
            if line.startswith("nmt_target_tokens_total{") and "de-en" in line
        ]
    assert [float(each) > 0 for each in written] == [True, False]


async def test_attention_of_a_translation_by_another_replica(
    settings: Settings, redis: Redis
) -> None:
    changes = {"redis": redis.address}
    async with connected(settings, **changes) as one, connected(settings, **changes) as two:
        asked = {"q": "ja", "source": "de", "target": "en", "attention": True}
        kept = (await one.post("/translate", json=asked)).json()["id"]
        maps = [await each.get(f"/translations/{kept}/attention") for each in (one, two)]
        assert maps[0].status_code == 200
        assert maps[0].json() == maps[1].json()


async def test_document_and_glossary_of_one_replica_are_known_to_the_other(
    replicas: Replicas,
) -> None:
    one, two = replicas
    form = {"target_lang": "EN", "source_lang": "DE"}
    files = {"file": ("a.txt", b"hallo welt")}
    handle = (await one.post("/v2/document", data=form, files=files)).json()
    key = {"document_key": handle["document_key"]}
    path = f"/v2/document/{handle['document_id']}"
    async with asyncio.timeout(10):
        while (await two.post(path, json=key)).json()["status"] != "done":
            await asyncio.sleep(0.05)
    assert (await two.post(f"{path}/result", json=key)).content == b"HALLO WELT"
    assert (await one.post(path, json=key)).status_code == 404
    entries = {"name": "a", "entries": "Hund\tdog", "entries_format": "tsv"}
    made = await one.post("/v2/glossaries", data=form | entries)
    assert made.status_code == 201
    found = await two.get(f"/v2/glossaries/{made.json()['glossary_id']}")
    assert found.json()["name"] == "a"
