"""Rate limits that replicas count together, in Valkey or Redis.

Without a server each replica counts alone, and so it does for some seconds after the server has
failed: a limit is then exceeded at most as many times as there are replicas.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from service.state.errors import RateLimited
from service.state.rates import RateLimits
from service.state.redis_server import RedisServer, ServerAway

if TYPE_CHECKING:
    from limits.aio.strategies import MovingWindowRateLimiter
    from redis.asyncio import ConnectionPool


class SharedRateLimits:
    def __init__(self, server: RedisServer | None = None, alone: RateLimits | None = None) -> None:
        self._server = server or RedisServer()
        self._alone = alone or RateLimits()
        pool = self._server.pool
        self._together = None if pool is None else _limiter(pool)
        """Counts on the server."""

    async def hit(self, caller: str, per_minute: int) -> None:
        """Count a request, or raise ``RateLimited`` without counting it; 0 is unlimited."""
        if per_minute and (together := self._together) is not None:
            with suppress(ServerAway):
                return await self._server.ask(
                    lambda _: _hit(together, caller, per_minute),
                    "this replica counts requests alone",
                )
        self._alone.hit(caller, per_minute)


def _limiter(pool: ConnectionPool) -> MovingWindowRateLimiter:
    from limits.aio.storage import RedisStorage
    from limits.aio.strategies import MovingWindowRateLimiter

    storage = RedisStorage(
        "async+redis://",
        implementation="redispy",
        key_prefix="dragoman",
        connection_pool=pool,  # type: ignore[arg-type]
    )
    return MovingWindowRateLimiter(storage)


async def _hit(together: MovingWindowRateLimiter, caller: str, per_minute: int) -> None:
    from limits import RateLimitItemPerMinute

    limit = RateLimitItemPerMinute(per_minute)
    if not await together.hit(limit, caller):
        window = await together.get_window_stats(limit, caller)
        raise RateLimited(per_minute, max(1, math.ceil(window.reset_time - time.time())))
