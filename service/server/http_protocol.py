"""uvicorn HTTP protocol with a limit of connections and a timeout for request heads."""

from __future__ import annotations

import asyncio
import functools
import logging
import resource
import sys
from typing import ClassVar, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

logger = logging.getLogger(__name__)

_OTHER_FILES = 64
"""File descriptors for everything but connections: models, database, documents, helpers."""
_WARNING_SECONDS = 60.0
_TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n"
    b"content-length: 0\r\n\r\n"
)


_FREE_PIECES = 4_000
_LEAST_BYTES = 16
"""A body may come in ``_FREE_PIECES`` pieces of any size, and in more of 16 bytes on average. Each
piece costs some microseconds on the event loop, however small it is."""


@functools.cache
def accept_backlog() -> int:
    """Connections that may wait to be accepted; they are accepted in one go."""
    return min(2048, max(8, _file_limit() // 8))


@functools.cache
def most_connections() -> int:
    """Connections that may be open, so that accepting one never fails for want of a file."""
    return max(8, _file_limit() - accept_backlog() - _OTHER_FILES)


def _file_limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


class _Connection(h11.Connection):
    """Refuses a body in tiny chunks as a violation of the protocol.

    The head of a response goes out with what follows it, because a write to a socket takes as long
    as some layers of the service together.
    """

    _pieces = 0
    _bytes = 0
    _head = b""

    def send_with_data_passthrough(self, event: h11.Event) -> list[bytes] | None:
        output = super().send_with_data_passthrough(event)
        if output is None:
            return None
        if isinstance(event, h11.Response):
            self._head = b"".join(output)
            return []
        head, self._head = self._head, b""
        return [head, *output]

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._pieces = self._bytes = 0
        elif isinstance(event, h11.Data):
            self._pieces += 1
            self._bytes += len(event.data)
            if self._pieces > max(_FREE_PIECES, self._bytes / _LEAST_BYTES):
                raise h11.RemoteProtocolError("the body comes in tiny chunks")
        return event


class PatientProtocol(H11Protocol):
    """Closes the connection if a request head is incomplete after ``head_seconds``.

    uvicorn waits for ever, so a few thousand clients that each send half a line could use up the
    process's file descriptors. ``BodyLimit`` limits bodies. Beyond ``most_connections``, the
    connection that has been idle longest is closed for each new one, or the new one is refused if
    all are in use. Garbage after a request is no error.
    """

    head_seconds: ClassVar[float] = 20.0
    most_share: ClassVar[int] = 1
    """Only one in this many of ``most_connections`` is used."""
    _warned_at: ClassVar[float] = -_WARNING_SECONDS

    @property
    def has_asked(self) -> bool:
        """Whether a request has come over this connection."""
        return self.cycle is not None

    @property
    def _idle(self) -> bool:
        """Whether no request is in progress; an incomplete head is none."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._waiting: asyncio.TimerHandle | None = None
        self._active = self.loop.time()
        self.conn = _Connection(h11.SERVER, self.conn._max_incomplete_event_size)
        super().connection_made(cast(asyncio.Transport, transport))
        self._wait_for_head()
        if len(self.connections) > max(1, most_connections() // self.most_share):
            self._make_room()

    def _make_room(self) -> None:
        others = cast(set[PatientProtocol], self.connections) - {self}
        idle = [connection for connection in others if connection._idle]
        leaving = min(idle, key=lambda connection: connection._active, default=self)
        if leaving is self:
            self.transport.write(_TOO_MANY)
        # It counts until it is lost otherwise, and another one would be closed for it.
        self.connections.discard(leaving)
        leaving.transport.close()
        now = self.loop.time()
        if now - PatientProtocol._warned_at >= _WARNING_SECONDS:
            PatientProtocol._warned_at = now
            logger.warning(
                "%d connections are open, and no more file descriptors are to be used: idle "
                "connections are closed; raise the limit of open files (ulimit -n)",
                len(self.connections),
            )

    def data_received(self, data: bytes) -> None:
        self._active = self.loop.time()
        try:
            super().data_received(data)
        except h11.LocalProtocolError:
            # uvicorn answers invalid bytes with 400, which fails once a response has begun.
            self.transport.close()
        self._wait_for_head()

    def send_400_response(self, msg: str) -> None:
        # The request with the invalid body may not have been answered yet, and no longer can be.
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        super().send_400_response(msg)

    def _unsupported_upgrade_warning(self) -> None:
        """The request is answered as without ``Upgrade``; uvicorn would log two lines for each."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        """Start the timer at the connection or first byte; stop it at the end of the head."""
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._waiting is None:
            self._waiting = self.loop.call_later(self.head_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        self.transport.close()
