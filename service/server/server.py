"""Running the app under uvicorn: signals, draining, the end.

SIGTERM or Ctrl-C begins the drain (``service.api.draining``): who was accepted is answered, who
comes is refused by name, and only then does uvicorn begin to close, because it stops listening
first of all. A second signal ends the process at once. SIGHUP asks for a reload.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import uvicorn
from starlette.types import ASGIApp

from service.api.draining import Drain
from service.server.http_protocol import PatientProtocol

logger = logging.getLogger(__name__)

_DONE, _SIGNALLED = 0, 128

_SAME_SECONDS = 0.5
"""Signals closer together are one: a wrapper forwards what its whole process group was sent."""

_LINGER_SECONDS = 0.1
"""How much longer people are told that we are leaving: about a round trip over a long way."""

_WAIT_SECONDS, _MOST_WAITS = 0.02, 100
"""What those get who have just connected and not asked yet."""

_ROUNDS_TO_CONNECT = 5

_MOST_ROUNDS = 1000
"""Of emptying the line before the door, should people never stop coming."""

_CLOSING_SECONDS = 1.0
"""What clients get at least to take delivery of what they have been answered."""


def serve(
    app: ASGIApp,
    drain: Drain,
    listener: socket.socket,
    *,
    shutdown_seconds: float,
    on_hangup: Callable[[], None],
) -> int:
    """Answer requests until a signal says stop; the exit code.

    ``on_hangup`` is called on the event loop for each SIGHUP. Has to be called on the main thread,
    to which signals come.
    """
    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        log_config=None,
        access_log=False,
        server_header=False,
        # Clients that ask again every five seconds, DeepL's among them, must not meet a connection
        # that closes in the same moment.
        timeout_keep_alive=75,
        lifespan="on",
        ws="none",
    )
    server = _Server(config, drain, shutdown_seconds, on_hangup)
    server.run(sockets=[listener])
    return server.exit_code


@contextmanager
def leaving_quietly() -> Iterator[None]:
    """Before there is a server, SIGTERM ends the process without a complaint."""
    before = signal.signal(signal.SIGTERM, _exit_done)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end_at_once(number: int, *_: object) -> NoReturn:
    logging.shutdown()
    # An exit in good order waits for every thread.
    os._exit(_SIGNALLED + number)


def _has_asked(connection: object) -> bool:
    assert isinstance(connection, PatientProtocol)
    return connection.has_asked


def _somebody_waits(listener: socket.socket) -> bool:
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    return bool(poll.poll(0))


def _exit_done(*_: object) -> NoReturn:
    raise SystemExit(_DONE)


class _Server(uvicorn.Server):
    """Drains before it closes."""

    def __init__(
        self,
        config: uvicorn.Config,
        drain: Drain,
        shutdown_seconds: float,
        on_hangup: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self.exit_code = _DONE
        self._drain = drain
        self._seconds = shutdown_seconds
        self._on_hangup = on_hangup
        self._stopping: asyncio.Task[None] | None = None
        self._told = 0.0

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """In the place of uvicorn's, which knows one thing to do with a signal: stop listening."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, number)
        loop.add_signal_handler(signal.SIGHUP, self._on_hangup)
        try:
            yield
        finally:
            # The threads of models being loaded are still waited for, unless somebody insists.
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
                signal.signal(number, _end_at_once)
            loop.remove_signal_handler(signal.SIGHUP)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _stop(self, number: signal.Signals) -> None:
        now = time.monotonic()
        if self._stopping is not None:
            if now - self._told < _SAME_SECONDS:
                return
            logger.warning("stopped at once; %d requests were cut", self._drain.running)
            _end_at_once(number)
        self._told = now
        # A shell wants to know of Ctrl-C; a supervisor that said SIGTERM got what it wanted.
        self.exit_code = _SIGNALLED + number if number == signal.SIGINT else _DONE
        logger.info("draining", extra={"requests": self._drain.running})
        self._drain.begin()
        self._stopping = asyncio.create_task(self._stop_when_drained())

    async def _stop_when_drained(self) -> None:
        deadline = time.monotonic() + self._seconds
        if not await self._drain.finished(self._seconds):
            logger.error(
                "%d requests were not done in %s s and are cancelled",
                self._drain.cut_short(),
                self._seconds,
            )
            await self._drain.finished(_CLOSING_SECONDS)
        remaining = max(deadline - time.monotonic(), _CLOSING_SECONDS)
        self.config.timeout_graceful_shutdown = math.ceil(remaining)
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._hear_everybody(sockets or [])
        await super().shutdown(sockets)

    async def _hear_everybody(self, listeners: list[socket.socket]) -> None:
        """Answer those who got in before the door is closed: closing on them would reset them."""
        if self.server_state.connections:
            await asyncio.sleep(_LINGER_SECONDS)
        for listener in listeners:
            for _ in range(_MOST_ROUNDS):
                if not _somebody_waits(listener):
                    break
                await asyncio.sleep(0)
        for server in self.servers:
            server.close()
        # A connection accepted last becomes one of ours a few rounds of the event loop later.
        for _ in range(_ROUNDS_TO_CONNECT):
            await asyncio.sleep(0)
        for _ in range(_MOST_WAITS):
            if all(map(_has_asked, self.server_state.connections)):
                break
            await asyncio.sleep(_WAIT_SECONDS)
