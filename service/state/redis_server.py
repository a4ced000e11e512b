"""The connections to a Valkey or Redis server that replicas share."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from service.state.errors import StateUnavailable

if TYPE_CHECKING:
    from redis.asyncio import ConnectionPool, Redis

logger = logging.getLogger(__name__)

_SETTING = "DRAGOMAN_REDIS"
_SECONDS = 1.0
"""How long a request waits for the server, or for one of the connections to it. A shorter wait ends
on a busy machine although the server answers, and then the limits are not exact."""
_CONNECTIONS = 32
_AWAY_SECONDS = 5.0
"""How long the server is left alone after a failure."""


class RedisServer:
    """A server that may be absent or away: its users go on without it then."""

    def __init__(self, address: SecretStr | None = None) -> None:
        """``address`` begins with ``redis://``, ``rediss://`` or ``unix://``; without one, as with
        an empty one, there is no server.

        Raises ``StateUnavailable`` if it is no address, or the client is not installed.
        """
        self._away_until = -math.inf
        self._pool: ConnectionPool | None = None
        if address is not None and address.get_secret_value():
            self._pool = _open(address.get_secret_value())

    @property
    def pool(self) -> ConnectionPool | None:
        """Connections; ``None`` without a server, and for some seconds after it has failed."""
        return None if time.monotonic() < self._away_until else self._pool

    def note_failure(self, consequence: str, error: Exception) -> None:
        """Leave the server alone for some seconds; the log has the consequence."""
        logger.warning("Redis is away, so %s: %s", consequence, error)
        self._away_until = time.monotonic() + _AWAY_SECONDS

    async def put(self, key: str, value: bytes, seconds: int) -> None:
        """Keep a value at most so long; it may be lost before."""
        await self._ask(
            lambda redis: redis.set(key, value, ex=seconds),
            "other replicas do not find what this one keeps",
        )

    async def get(self, key: str) -> bytes | None:
        """The value that any replica has put there; ``None`` if there is none, or no server."""
        value: bytes | None = await self._ask(
            lambda redis: redis.get(key), "this replica does not find what others keep"
        )
        return value

    async def _ask(self, work: Callable[[Redis], Awaitable[Any]], consequence: str) -> Any:
        """The server's answer; ``None`` without a server, and after a failure, which is logged."""
        if (pool := self.pool) is None:
            return None
        from redis.asyncio import Redis
        from redis.exceptions import RedisError

        try:
            return await work(Redis(connection_pool=pool))
        except RedisError as error:
            self.note_failure(consequence, error)
            return None

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.aclose()


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
