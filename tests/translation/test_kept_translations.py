"""Translations that one replica keeps and another one finds."""

from __future__ import annotations

import logging
import zlib
from collections.abc import AsyncIterator, Callable

import pytest

from service.inspection import kept_translations
from service.inspection.kept_translations import KeptTranslations
from service.inspection.translation_store import TranslationStore, UnknownTranslation
from service.state.redis_server import RedisServer
from tests.support.redis import Redis
from tests.translation.test_store import make

Replica = Callable[[], KeptTranslations]


@pytest.fixture
async def replica(redis: Redis) -> AsyncIterator[Replica]:
    servers = []

    def start() -> KeptTranslations:
        servers.append(RedisServer(redis.address))
        return KeptTranslations(TranslationStore(1), servers[-1])

    yield start
    for server in servers:
        await server.close()


async def test_other_replicas_find_a_translation_in_its_scope_alone(replica: Replica) -> None:
    one, other = replica(), replica()
    texts = (make(sentences=2), make(seed=3))
    kept = await one.put(texts, "ann")
    assert await other.get(kept, "ann") == await one.get(kept, "ann") == texts
    assert (await other.get(kept, "ann"))[0].legs[0].sentences[0].options.target_prefix
    for unknown, scope in ((kept, "bob"), (kept, ""), ("0" * 32, "ann"), (f"{kept}/x", "ann")):
        with pytest.raises(UnknownTranslation):
            await other.get(unknown, scope)


async def test_large_ones_and_those_that_cannot_be_read_are_unknown_to_others(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = replica(), replica()
    monkeypatch.setattr(kept_translations, "_MOST_BYTES", 20)
    large = await one.put([make()])
    assert await one.get(large) == (make(),)
    monkeypatch.undo()
    # Another version of the service may write this.
    monkeypatch.setattr(kept_translations, "_pack", lambda _: zlib.compress(b"\x91\x01"))
    for unknown in (large, await one.put([make()])):
        with pytest.raises(UnknownTranslation):
            await other.get(unknown)


async def test_each_replica_keeps_its_own_while_the_server_is_away(
    replica: Replica,
    redis: Redis,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("service.state.redis_server._AWAY_SECONDS", 0.0)
    one, other = replica(), replica()
    first = await one.put([make()])
    redis.stop()
    with caplog.at_level(logging.WARNING), pytest.raises(UnknownTranslation):
        await other.get(first)
    assert "this replica does not find what others keep" in caplog.text
    second = await one.put([make()])
    assert "other replicas do not find what this one keeps" in caplog.text
    assert await one.get(second) == await one.get(first) == (make(),)
    redis.start()
    assert await other.get(await one.put([make()])) == (make(),)
