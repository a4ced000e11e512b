"""Task group that raises the first failure itself instead of an ``ExceptionGroup``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def together() -> AsyncIterator[asyncio.TaskGroup]:
    """A task group that raises the first failure instead of an ``ExceptionGroup``.

    Further failures have the same cause, or are tasks cancelled because of the first failure.
    """
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except ExceptionGroup as failures:
        first = failures.exceptions[0]
        raise first from first.__cause__
