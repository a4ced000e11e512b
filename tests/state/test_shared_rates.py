from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from pydantic import SecretStr

import tests.support.redis
from service.state import redis_server
from service.state.errors import RateLimited, StateUnavailable
from service.state.redis_server import RedisServer, ServerAway
from service.state.shared_rates import SharedRateLimits
from tests.support.redis import Redis


@asynccontextmanager
async def replicas(number: int, address: SecretStr | None) -> AsyncIterator[list[SharedRateLimits]]:
    servers = [RedisServer(address) for _ in range(number)]
    yield [SharedRateLimits(server) for server in servers]
    for each in servers:
        await each.close()


async def outcome(limits: SharedRateLimits, caller: str, per_minute: int) -> str:
    try:
        await limits.hit(caller, per_minute)
    except RateLimited as refusal:
        assert 1 <= refusal.retry_after <= 60
        return "refused"
    return "admitted"


async def counted(made: list[SharedRateLimits], caller: str, times: int) -> Counter[str]:
    hits = [outcome(each, caller, 20) for _ in range(times) for each in made]
    return Counter(await asyncio.gather(*hits))


async def test_replicas_admit_a_limit_together_to_the_request(redis: Redis) -> None:
    async with replicas(3, redis.address) as made:
        for caller in ("ann", "bob"):
            assert await counted(made, caller, 20) == {"admitted": 20, "refused": 40}
        assert await outcome(made[0], "carl", 0) == "admitted"


async def test_replica_counts_alone_while_the_server_is_away(
    redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    async with replicas(2, redis.address) as made:
        assert await counted(made, "ann", 20) == {"admitted": 20, "refused": 20}
        redis.stop()
        with caplog.at_level(logging.WARNING):
            assert await counted(made, "ann", 30) == {"admitted": 40, "refused": 20}
        assert caplog.text.count("counts requests alone") == len(made)
        redis.start()
        for each in made:
            each._server._away_until = 0.0
            await each.hit("first", 20)
        assert await counted(made, "ann", 20) == {"admitted": 20, "refused": 20}


async def test_one_request_asks_a_server_that_has_stopped_answering(
    redis: Redis, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(redis_server, "_SECONDS", 0.05)
    asked = Counter[str]()
    server = RedisServer(redis.address)

    async def silent(_: object) -> None:
        asked["asked"] += 1
        await asyncio.sleep(60)

    async def ask() -> None:
        with pytest.raises(ServerAway):
            await server.ask(silent, "nothing is shared")

    await asyncio.gather(*(ask() for _ in range(5)))
    assert asked["asked"] == 5
    server._away_until = 0.0
    await asyncio.gather(*(ask() for _ in range(5)))
    assert asked["asked"] == 6
    assert caplog.text.count("nothing is shared") == 2
    await server.close()


async def test_without_a_server_each_replica_counts_its_own() -> None:
    async with replicas(2, None) as made:
        assert await counted(made, "ann", 20) == {"admitted": 40}


def test_what_is_no_address_is_refused() -> None:
    if reason := tests.support.redis.missing():
        pytest.skip(reason)
    with pytest.raises(StateUnavailable, match=r"DRAGOMAN_REDIS.*is no address"):
        RedisServer(SecretStr("localhost:6379"))
