"""The connections to a Valkey or Redis server that replicas share."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from pydantic import SecretStr

from service.state.errors import StateUnavailable

if TYPE_CHECKING:
    from redis.asyncio import ConnectionPool, Redis

logger = logging.getLogger(__name__)

T = TypeVar("T")

_SETTING = "DRAGOMAN_REDIS"
_SECONDS = 1.0
"""How long a request waits for the server, or for one of the connections to it. A shorter wait ends
on a busy machine although the server answers, and then the limits are not exact."""
_CONNECTIONS = 32
_AWAY_SECONDS = 5.0
"""How long the server is left alone after a failure."""


class ServerAway(Exception):
    """There is no server, or it does not answer."""


class RedisServer:
    """A server that may be absent or away: its users go on without it then."""

    def __init__(self, address: SecretStr | None = None) -> None:
        """``address`` begins with ``redis://``, ``rediss://`` or ``unix://``; without one, as with
        an empty one, there is no server.

        Raises ``StateUnavailable`` if it is no address, or the client is not installed.
        """
        self._away_until: float | None = None
        """Time at which the server is asked again; ``None`` while it answers."""
        self.pool: ConnectionPool | None = None
        """Connections; ``None`` without a server."""
        if address is not None and address.get_secret_value():
            self.pool = _open(address.get_secret_value())

    async def put(self, key: str, value: bytes, seconds: int) -> None:
        """Keep a value at most so long; it may be lost before."""
        with suppress(ServerAway):
            await self.ask(
                lambda redis: redis.set(key, value, ex=seconds),
                "other replicas do not find what this one keeps",
            )

    async def get(self, key: str) -> bytes | None:
        """The value that any replica has put there; ``None`` if there is none, or no server."""
        with suppress(ServerAway):
            return await self.ask(
                lambda redis: redis.get(key), "this replica does not find what others keep"
            )
        return None

    async def ask(self, work: Callable[[Redis], Awaitable[T]], consequence: str) -> T:
        """The server's answer, within a second; raises ``ServerAway``.

        After a failure, which is logged with its consequence, the server is left alone for some
        seconds; then one request asks it, and the others go on without it until it answers.
        """
        now = time.monotonic()
        if self.pool is None or (self._away_until is not None and now < self._away_until):
            raise ServerAway
        from redis.asyncio import Redis
        from redis.exceptions import RedisError

        returning = self._away_until is not None
        if returning:
            self._away_until = now + _AWAY_SECONDS
        try:
            async with asyncio.timeout(_SECONDS):
                answer = await work(Redis(connection_pool=self.pool))
        except (RedisError, TimeoutError) as error:
            # Other requests, which began before the first one failed, say nothing more.
            if returning or self._away_until is None:
                logger.warning("Redis is away, so %s: %s", consequence, str(error) or "no answer")
            self._away_until = time.monotonic() + _AWAY_SECONDS
            raise ServerAway from error
        self._away_until = None
        return answer

    async def close(self) -> None:
        if self.pool is not None:
            await self.pool.aclose()


def _open(address: str) -> ConnectionPool:
    try:
        from redis.asyncio import BlockingConnectionPool
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
    except ImportError as error:
        remedy = "install dragoman-translate with its extra fleet"
        raise StateUnavailable(_SETTING, "needs a client of Redis", remedy) from error
    try:
        return BlockingConnectionPool.from_url(
            address,
            max_connections=_CONNECTIONS,
            timeout=_SECONDS,
            socket_timeout=_SECONDS,
            socket_connect_timeout=_SECONDS,
            # A connection that the server has closed meanwhile.
            retry=Retry(NoBackoff(), 1),
        )
    except ValueError as error:
        remedy = "write redis://USER:PASSWORD@HOST:PORT/DATABASE"
        raise StateUnavailable(_SETTING, "is no address", remedy) from error
