"""Rate limits that replicas count together, in Valkey or Redis.

Without a server each replica counts alone, and so it does for some seconds after the server has
failed: a limit is then exceeded at most as many times as there are replicas.
"""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING

from pydantic import SecretStr

from service.state.errors import RateLimited, StateUnavailable
from service.state.rates import RateLimits

if TYPE_CHECKING:
    from limits.aio.strategies import MovingWindowRateLimiter
    from redis.asyncio import ConnectionPool

logger = logging.getLogger(__name__)

_SECONDS = 0.25
"""How long a request waits for the server, or for one of the connections to it."""
_CONNECTIONS = 32
_AWAY_SECONDS = 5.0
"""How long the server is left alone after a failure."""


class SharedRateLimits:
    def __init__(self, address: SecretStr | None = None, alone: RateLimits | None = None) -> None:
        """``address`` begins with ``redis://``, ``rediss://`` or ``unix://``; without one, as with
        an empty one, there is no server.

        Raises ``StateUnavailable`` if it is no address, or the client is not installed.
        """
        self._alone = alone or RateLimits()
        self._pool: ConnectionPool | None = None
        self._together: MovingWindowRateLimiter | None = None
        self._away_until = -math.inf
        if address is not None and address.get_secret_value():
            self._connect(address)

    def _connect(self, address: SecretStr) -> None:
        setting = "DRAGOMAN_REDIS"
        try:
            from limits.aio.storage import RedisStorage
            from limits.aio.strategies import MovingWindowRateLimiter
            from redis.asyncio import BlockingConnectionPool
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
        except ImportError as error:
            remedy = "install dragoman-translate with its extra fleet"
            raise StateUnavailable(setting, "needs a client of Redis", remedy) from error
        try:
            self._pool = BlockingConnectionPool.from_url(
                address.get_secret_value(),
                max_connections=_CONNECTIONS,
                timeout=_SECONDS,
                socket_timeout=_SECONDS,
                socket_connect_timeout=_SECONDS,
                # A connection that the server has closed meanwhile.
                retry=Retry(NoBackoff(), 1),
            )
        except ValueError as error:
            remedy = "write redis://USER:PASSWORD@HOST:PORT/DATABASE"
            raise StateUnavailable(setting, "is no address", remedy) from error
        storage = RedisStorage(
            "async+redis://",
            wrap_exceptions=True,
            implementation="redispy",
            key_prefix="dragoman",
            connection_pool=self._pool,  # type: ignore[arg-type]
        )
        self._together = MovingWindowRateLimiter(storage)

    async def hit(self, caller: str, per_minute: int) -> None:
        """Count a request, or raise ``RateLimited`` without counting it; 0 is unlimited."""
        if self._together is not None and per_minute and time.monotonic() >= self._away_until:
            from limits.errors import StorageError

            try:
                return await self._hit(self._together, caller, per_minute)
            except StorageError as error:
                logger.warning(
                    "Redis is away, so this replica counts requests alone: %s", error.storage_error
                )
                self._away_until = time.monotonic() + _AWAY_SECONDS
        self._alone.hit(caller, per_minute)

    async def _hit(self, together: MovingWindowRateLimiter, caller: str, per_minute: int) -> None:
        from limits import RateLimitItemPerMinute

        limit = RateLimitItemPerMinute(per_minute)
        if not await together.hit(limit, caller):
            window = await together.get_window_stats(limit, caller)
            raise RateLimited(per_minute, max(1, math.ceil(window.reset_time - time.time())))

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.aclose()
