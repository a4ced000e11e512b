"""Runs the app under uvicorn, with signal handling and a graceful drain.

SIGTERM or Ctrl-C begins the drain (``service.api.draining``): accepted requests are answered, and
further requests are refused with 503. Only then does uvicorn close, because its first action is to
stop listening. A second signal ends the process at once. SIGHUP triggers a reload.
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
from typing import NoReturn, Protocol, cast

import uvicorn
from starlette.types import ASGIApp

from service.api.draining import Drain
from service.server.http_protocol import PatientProtocol, accept_backlog, most_connections
from service.threads.allocator import give_memory_back

logger = logging.getLogger(__name__)

_DONE, FAILED, _SIGNALLED = 0, 3, 128
_TICKS = 10
"""Ticks of uvicorn in a second."""

_TICKS_TO_TRIM = 30 * _TICKS
"""Ticks between returns of free memory to the operating system."""

_SAME_SECONDS = 0.5
"""Signals within this time count as one: a wrapper may forward a signal to its whole group."""

_LINGER_SECONDS = 0.1
"""How much longer requests are refused with 503: about one long-distance round trip."""

_WAIT_SECONDS, _MOST_WAITS = 0.02, 100
"""Length and number of the waits for open connections to send their first request."""

_ROUNDS_TO_CONNECT = 5

_MOST_ROUNDS = 1000
"""Bound of the rounds that empty the accept queue while clients keep connecting."""

_CLOSING_SECONDS = 1.0
"""Minimum time for clients to receive their responses."""


def serve(
    app: ASGIApp,
    drain: Drain,
    listener: socket.socket,
    *,
    shutdown_seconds: float,
    leave_seconds: float = 0.0,
    on_hangup: Callable[[], None],
    trusted_proxies: str = "",
    accepts: int | None = None,
    failure: Callable[[], str] = lambda: "",
) -> int:
    """Answer requests until SIGTERM or SIGINT; returns the exit code.

    After SIGTERM requests are accepted for ``leave_seconds`` more, while probes say that the server
    ends, then answered for ``shutdown_seconds``. ``on_hangup`` is called on the event loop for each
    SIGHUP. Forwarding headers are read only from ``trusted_proxies``.
    ``accepts`` is the most connections accepted at once, by default all that wait; processes that
    share a listener take fewer, so that each gets its share. ``failure`` is asked each second on
    the event loop; after a reason that it returns, the server drains, and the code is ``FAILED``.
    Call on the main thread, which receives signals.
    """
    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        backlog=accepts or accept_backlog(),
        # Not whatever loop is installed: those differ in what a closed connection may be sent.
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=trusted_proxies,
        # Clients that poll every five seconds, such as DeepL's, must not race with uvicorn's
        # default keep-alive timeout of the same length.
        timeout_keep_alive=75,
        lifespan="on",
        ws="none",
    )
    server = _Server(config, drain, shutdown_seconds, leave_seconds, on_hangup, failure)
    server.run(sockets=[listener])
    return server.exit_code


@contextmanager
def leaving_quietly() -> Iterator[None]:
    """Exit with 0 and without a traceback on SIGTERM; for the time before the server runs."""
    before = signal.signal(signal.SIGTERM, _exit_done)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end_at_once(number: int, *_: object) -> NoReturn:
    logging.shutdown()
    # A regular exit would wait for every thread.
    os._exit(_SIGNALLED + number)


class _ServedConnection(Protocol):
    @property
    def has_asked(self) -> bool:
        """Whether a request has come over this connection."""
        ...


def _has_asked(connection: object) -> bool:
    return cast(_ServedConnection, connection).has_asked


def _has_pending_connections(listener: socket.socket) -> bool:
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    return bool(poll.poll(0))


def _exit_done(*_: object) -> NoReturn:
    raise SystemExit(_DONE)


class _Server(uvicorn.Server):
    """uvicorn server that drains before it closes."""

    def __init__(
        self,
        config: uvicorn.Config,
        drain: Drain,
        shutdown_seconds: float,
        leave_seconds: float,
        on_hangup: Callable[[], None],
        failure: Callable[[], str],
    ) -> None:
        super().__init__(config)
        self._failure = failure
        self.exit_code = _DONE
        self._drain = drain
        self._seconds = shutdown_seconds
        self._leave_seconds = leave_seconds
        self._on_hangup = on_hangup
        self._stopping: asyncio.Task[None] | None = None
        self._signalled_at = 0.0

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Replaces uvicorn's handlers, which stop listening on any signal."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, number)
        loop.add_signal_handler(signal.SIGHUP, self._on_hangup)
        try:
            yield
        finally:
            # The exit waits for threads that load models; another signal ends it at once.
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
                signal.signal(number, _end_at_once)
            loop.remove_signal_handler(signal.SIGHUP)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _stop(self, number: signal.Signals) -> None:
        now = time.monotonic()
        if self._stopping is not None:
            if now - self._signalled_at < _SAME_SECONDS:
                return
            logger.warning("stopped at once; %d requests were cut", self._drain.running)
            _end_at_once(number)
        self._signalled_at = now
        # A shell expects 130 after Ctrl-C; for a supervisor, exit after SIGTERM is a success.
        self.exit_code = _SIGNALLED + number if number == signal.SIGINT else _DONE
        self._begin_drain(0.0 if number == signal.SIGINT else self._leave_seconds)

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS == 0 and self._stopping is None and (reason := self._failure()):
            logger.error("the service ends, so that it can start again: %s", reason)
            self.exit_code = FAILED
            self._begin_drain()
        if counter % _TICKS_TO_TRIM == 0:
            # Texts of many sizes leave holes in the heap: 50 to 70 MB of each process under load.
            asyncio.get_running_loop().run_in_executor(None, give_memory_back)
        return await super().on_tick(counter)

    def _begin_drain(self, after_seconds: float = 0.0) -> None:
        self._drain.leave()
        self._stopping = asyncio.create_task(self._drain_and_stop(after_seconds))

    async def _drain_and_stop(self, after_seconds: float) -> None:
        if after_seconds:
            logger.info("leaving")
            await asyncio.sleep(after_seconds)
        logger.info("draining", extra={"requests": self._drain.running})
        self._drain.begin()
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

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or []:
            # asyncio has set the backlog to the number of connections accepted at once. Connections
            # of workers, at most as many as those of clients, must find room: a Unix socket whose
            # queue is full refuses them.
            workers = most_connections() if listener.family == socket.AF_UNIX else 0
            listener.listen(max(accept_backlog(), workers))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._answer_open_connections(sockets or [])
        await super().shutdown(sockets)

    async def _answer_open_connections(self, listeners: list[socket.socket]) -> None:
        """Answer accepted connections before the listener closes: closing would reset them."""
        if self.server_state.connections:
            await asyncio.sleep(_LINGER_SECONDS)
        for listener in listeners:
            for _ in range(_MOST_ROUNDS):
                if not _has_pending_connections(listener):
                    break
                await asyncio.sleep(0)
        for server in self.servers:
            server.close()
        # The last accepted connection is registered a few event-loop rounds later.
        for _ in range(_ROUNDS_TO_CONNECT):
            await asyncio.sleep(0)
        for _ in range(_MOST_WAITS):
            if all(map(_has_asked, self.server_state.connections)):
                break
            await asyncio.sleep(_WAIT_SECONDS)
