"""Concurrent work that raises its first failure, and the deadline of a request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from service.translation.errors import DeadlineExceeded

T = TypeVar("T")


async def results_of(coroutines: Sequence[Coroutine[None, None, T]]) -> list[T]:
    """Run all concurrently; returns their results. The first failure cancels all."""
    if len(coroutines) == 1:
        return [await coroutines[0]]
    tasks: list[asyncio.Task[T]] = []
    try:
        async with together() as group:
            tasks += [group.create_task(coroutine) for coroutine in coroutines]
        return [task.result() for task in tasks]
    finally:
        # Breaks a reference cycle: the traceback of a failure refers to this frame.
        del tasks


@asynccontextmanager
async def together() -> AsyncIterator[asyncio.TaskGroup]:
    """A task group that raises the first failure instead of an ``ExceptionGroup``.

    Further failures have the same cause, or are tasks cancelled because of the first failure.
    """
    failure: BaseException | None = None
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except (ExceptionGroup, asyncio.CancelledError) as error:
        failure = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
        # A frame of TaskGroup refers to the error, and the error's traceback to the frame. Without
        # this, only the garbage collector frees the tasks, and all threads wait for it.
        error.__traceback__ = None
    if failure is not None:
        try:
            # Outside of the handler, because the group would become its context.
            raise failure
        finally:
            del failure


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
