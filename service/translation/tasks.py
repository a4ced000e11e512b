"""Task group that raises its first failure, and the deadline of a request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from service.translation.errors import DeadlineExceeded


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


@asynccontextmanager
async def deadline(seconds: float | None) -> AsyncIterator[None]:
    """Cancel the body after ``seconds`` and raise ``DeadlineExceeded``; ``None`` sets no limit.

    A ``TimeoutError`` of the body itself passes through.
    """
    scope = asyncio.timeout(seconds)
    try:
        async with scope:
            yield
    except TimeoutError as error:
        if seconds is None or not scope.expired():
            raise
        raise DeadlineExceeded(seconds) from error
