"""Tasks that belong together: the first that fails fails them all, under its own name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def together() -> AsyncIterator[asyncio.TaskGroup]:
    """A task group that raises the first failure instead of a group of them.

    The others are either the same refusal or were cancelled because of the first.
    """
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except ExceptionGroup as failures:
        first = failures.exceptions[0]
        raise first from first.__cause__
