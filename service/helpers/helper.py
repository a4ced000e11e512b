"""Asyncio client of a pool of helper processes, started on demand, with time and memory limits.

Each process handles one request at a time. A process that dies, exceeds its time or sends an
oversized answer fails that request only. The next request starts a new process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress

from service.helpers.messages import (
    NUMBER,
    OUT_OF_MEMORY,
    Outcome,
    Unreadable,
    head_of,
    lengths_in,
    table_size,
)
from service.threads.fair_turns import FairTurns

logger = logging.getLogger(__name__)

_GOING_SECONDS = 1.0
"""Time for a process to exit by itself. Killing it earlier could hide its exit code."""

_PROGRAM = (
    "import sys; sys.path[:] = {path!r}; from service.helpers.program import run; run{arguments!r}"
)


class HelperFailed(Exception):
    """A helper gave no answer: it died, or its code raised an exception."""


class HelperTooSlow(HelperFailed):
    """The helper was killed because it exceeded its time limit."""


class HelperOutOfMemory(HelperFailed):
    """The helper needed more memory than its limit."""


class HelperKilled(HelperFailed):
    """The helper was killed by another program: its request may have been innocent."""


class Helpers:
    """Pool of up to ``count`` processes that call the function ``answer`` of ``module``.

    Belongs to one event loop. ``seconds`` and ``answer_bytes`` limit each answer. ``memory_bytes``
    limits the memory of a process beyond its size at the start; only Linux enforces it. One caller
    occupies all processes but one at most.
    """

    def __init__(
        self,
        module: str,
        *,
        count: int,
        seconds: float,
        answer_bytes: int,
        memory_bytes: int | None = None,
    ) -> None:
        self._turns = FairTurns(count)
        self._seconds = seconds
        self._all = tuple(_Helper(module, answer_bytes, memory_bytes) for _ in range(count))
        self._idle = list(self._all)
        self._closed = False

    @property
    def processes(self) -> list[int]:
        """Process ids of the running helpers."""
        return [helper.pid for helper in self._all if helper.pid is not None]

    async def ask(
        self, *parts: bytes, caller: str | None = None, seconds: float | None = None
    ) -> list[bytes]:
        """Wait for a free helper and return the parts of its answer; raises ``HelperFailed``.

        ``caller`` is whose share of the processes is used; ``None`` has no share of its own.
        ``seconds`` is a shorter time limit than that of the pool. Cancelling the call kills the
        helper that works on it.
        """
        async with self._turns.turn(caller):
            if self._closed:
                raise HelperFailed("the service is shutting down")
            # The most recently used helper, so that no more processes start than needed.
            helper = self._idle.pop()
            try:
                return await helper.ask(parts, min(self._seconds, seconds or self._seconds))
            finally:
                self._idle.append(helper)

    async def close(self) -> None:
        """End all helpers for good. Pending and later calls raise ``HelperFailed``."""
        self._closed = True
        for helper in self._all:
            helper.kill()
        # With all turns taken, every pending ``ask`` has returned and ended its helper.
        async with AsyncExitStack() as turns:
            for _ in self._all:
                await turns.enter_async_context(self._turns.turn(None))
            for helper in self._all:
                await helper.end()


class _Helper:
    def __init__(self, module: str, answer_bytes: int, memory_bytes: int | None) -> None:
        self._module = module
        self._answer_bytes = answer_bytes
        self._memory_bytes = memory_bytes
        self._process: Process | None = None
        self._killed = False

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def ask(self, parts: Sequence[bytes], seconds: float) -> list[bytes]:
        scope = asyncio.timeout(seconds)
        try:
            async with scope:
                outcome, *answer = await self._exchange(await self._started(), parts)
                reported = Outcome(outcome)
        except BaseException as error:
            # A later answer could no longer be matched to its request, so end the process.
            going = isinstance(error, EOFError | ConnectionError)
            code = await self.end(going=going)
            if isinstance(error, TimeoutError) and scope.expired():
                raise HelperTooSlow(f"no answer within {seconds:g} seconds") from error
            if code == OUT_OF_MEMORY:
                raise HelperOutOfMemory(
                    f"{self._memory_bytes} bytes of memory were not enough"
                ) from error
            if isinstance(error, OSError | EOFError | ValueError | Unreadable):
                killed = going and code == -signal.SIGKILL
                failure = HelperKilled if killed else HelperFailed
                raise failure(f"{self._module} {_how_ended(code)}: {error}") from error
            raise
        if reported is not Outcome.DONE:
            await self.end(going=True)
        if reported is Outcome.FAILED:
            raise HelperFailed(b"".join(answer).decode(errors="replace"))
        return answer

    def kill(self) -> None:
        if self._process is not None and not self._killed:
            self._killed = True
            _kill(self._process)

    async def end(self, *, going: bool = False) -> int | None:
        """End the process, if any, and return its exit code. ``going``: it exits by itself."""
        process, self._process = self._process, None
        killed, self._killed = self._killed, False
        if process is None:
            return None
        if going:
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), _GOING_SECONDS)
        if not killed:
            # Killing a dead child reaps it, and asyncio would report an unknown process.
            _kill(process)
        # Also drains the pipes, so that none stays open.
        await process.communicate()
        return process.returncode

    async def _started(self) -> Process:
        if self._process is not None and self._process.returncode is not None:
            how = _how_ended(await self.end())
            logger.warning("%s %s while idle; another is started", self._module, how)
        if self._process is None:
            arguments = (self._module, os.getpid(), self._memory_bytes)
            program = _PROGRAM.format(path=sys.path, arguments=arguments)
            # A session of its own keeps Ctrl-C from reaching the helper.
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", program), stdin=PIPE, stdout=PIPE, start_new_session=True
            )
        return self._process

    async def _exchange(self, process: Process, parts: Sequence[bytes]) -> list[bytes]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(head_of(parts))
        for part in parts:
            process.stdin.write(part)
            await process.stdin.drain()
        number = await process.stdout.readexactly(NUMBER.size)
        table = await process.stdout.readexactly(table_size(number, self._answer_bytes))
        lengths = lengths_in(table, self._answer_bytes)
        answer = [await process.stdout.readexactly(length) for length in lengths]
        if not answer:
            raise Unreadable("a message without parts")
        return answer


def _kill(process: Process) -> None:
    if process.returncode is None:
        process.kill()


def _how_ended(code: int | None) -> str:
    if code is None:
        return "was not there"
    if code >= 0:
        return f"ended with exit code {code}"
    return f"was ended by {signal.Signals(-code).name}"
