"""uvicorn HTTP protocol with a limit of connections and timeouts for heads and unread answers."""

from __future__ import annotations

import asyncio
import fcntl
import functools
import logging
import resource
import sys
import termios
from collections import OrderedDict
from itertools import islice
from typing import Any, ClassVar, cast
from weakref import WeakKeyDictionary

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

logger = logging.getLogger(__name__)

_OTHER_FILES = 64
"""File descriptors for everything but connections: models, database, documents, helpers."""
_FILES_PER_CONNECTION = 2
"""The connection, and a file that is its answer or, in a worker, a connection to the owner."""
_WARNING_SECONDS = 60.0
_MOST_EXAMINED = 16
"""Idle connections that are examined for each new one beyond the limit, a system call for each."""
_TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n"
    b"content-length: 0\r\n\r\n"
)


_CONTINUE = b"HTTP/1.1 100 Continue"
_MOST_HEAD_BYTES = 1 << 16
"""Maximum bytes of a request head, and of chunk framing and trailers."""
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
    return max(8, (_file_limit() - accept_backlog() - _OTHER_FILES) // _FILES_PER_CONNECTION)


def _file_limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def _sent_unacknowledged(transport: asyncio.Transport) -> int:
    """Bytes that the kernel holds for the client."""
    file = transport.get_extra_info("socket").fileno()
    return int.from_bytes(fcntl.ioctl(file, termios.TIOCOUTQ, bytes(4)), sys.byteorder)


class _InvalidRequest(Exception):
    """Raised in a callback of the parser, which then reports an error."""


class _JoinedHead:
    """Transport of one response, whose head goes out with what follows it.

    A write to a socket takes as long as some layers of the service together.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head: bytes | None = None
        """Held back; empty once it was written."""

    def write(self, data: bytes) -> None:
        if self._head is None and not data.startswith(_CONTINUE):
            self._head = data
        elif self._head:
            self._transport.write(self._head + data)
            self._head = b""
        else:
            self._transport.write(data)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        if self._head:
            self.write(b"")
        self._transport.close()


class PatientProtocol(HttpToolsProtocol):
    """Closes the connection if a request head is incomplete after ``head_seconds``.

    uvicorn waits for ever, so a few thousand clients that each send half a line could use up the
    process's file descriptors. ``BodyLimit`` limits bodies. Beyond ``most_connections``, the
    connection that has been idle longest is closed for each new one, or the new one is refused if
    all are in use. Idle connections are kept in order, so that this takes the same time however
    many there are. A connection whose answer is not read counts as idle since the client last took
    a byte. It is aborted after ``unread_seconds``, or up to half as long again. Garbage after a
    request is no error. The parser bounds neither heads nor trailers, so that their bytes are
    counted here; a request has one host, and its body does not come in tiny chunks.
    """

    head_seconds: ClassVar[float] = 20.0
    unread_seconds: ClassVar[float] = 60.0
    """A client may stop reading an answer for this long, as one that loses its network does."""
    _warned_at: ClassVar[float] = -_WARNING_SECONDS
    _idle_of: ClassVar[WeakKeyDictionary[ServerState, OrderedDict[PatientProtocol, None]]] = (
        WeakKeyDictionary()
    )
    """Connections of each server that were idle when that last changed, by time of that."""

    @property
    def has_asked(self) -> bool:
        """Whether a request has come over this connection."""
        return self.cycle is not None

    @property
    def _idle(self) -> bool:
        """Whether no request is in progress, or its answer waits for the client.

        An incomplete head is no request in progress.
        """
        complete = self.cycle is None or self.cycle.response_complete
        return complete or self.transport.get_write_buffer_size() > 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._waiting: asyncio.TimerHandle | None = None
        self._active = self.loop.time()
        """Time at which the client last sent a byte, or was seen to have taken one of an answer."""
        self._unread = 0
        """Bytes that the client had not taken when that was last checked."""
        self._check_later()
        self._answered: RequestResponseCycle | None = None
        """The request that is being answered, or was last. Pipelined ones wait behind it."""
        self._in_head = True
        """Whether the first byte of a request came and its last line did not, or nothing came."""
        self._received = self._content = self._pieces = 0
        """Bytes of the request, of them in its body, and pieces of the body."""
        super().connection_made(cast(asyncio.Transport, transport))
        self._idle_ones = self._idle_of.setdefault(self.server_state, OrderedDict())
        self._idle_ones[self] = None
        self._wait_for_head()
        if len(self.connections) > most_connections():
            self._make_room()

    def _make_room(self) -> None:
        examined = [each for each in islice(self._idle_ones, _MOST_EXAMINED) if each is not self]
        for connection in examined:
            seen = connection._active
            connection._note_progress()
            if connection._active != seen or not connection._idle:
                connection._note_use()
        idle = (connection for connection in examined if connection._idle)
        leaving = min(idle, key=lambda connection: connection._active, default=self)
        # Not counted from here on, because ``connection_lost`` may follow another new connection.
        self.connections.discard(leaving)
        self._idle_ones.pop(leaving, None)
        if leaving is self:
            self.transport.write(_TOO_MANY)
            self.transport.close()
        else:
            # ``close`` would keep the file descriptor until the client has taken all of its answer.
            leaving.transport.abort()
        now = self.loop.time()
        if now - PatientProtocol._warned_at >= _WARNING_SECONDS:
            PatientProtocol._warned_at = now
            logger.warning(
                "%d connections are open, and no more file descriptors are to be used: idle "
                "connections are closed; raise the limit of open files (ulimit -n)",
                len(self.connections),
            )

    def _note_use(self) -> None:
        """Move the connection behind all idle ones, or take it from them if it is not idle."""
        self._idle_ones.pop(self, None)
        # A lost connection, whose answer may end later, has no parser.
        if self._idle and self.parser is not None:
            self._idle_ones[self] = None

    def data_received(self, data: bytes) -> None:
        # Bytes sent do not excuse an unread answer.
        if not self.transport.get_write_buffer_size():
            self._active = self.loop.time()
        self._unset_keepalive_if_required()
        self._received += len(data)
        try:
            self._parse(memoryview(data))
            self._check_size()
        except (httptools.HttpParserError, _InvalidRequest):
            self.send_400_response("Invalid HTTP request received.")
        self._note_use()
        self._wait_for_head()

    def _parse(self, data: memoryview) -> None:
        """Feed the parser with requests, whose ``Upgrade`` is ignored."""
        while data:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                # The parser would read neither the body nor another request.
                self.parser = httptools.HttpRequestParser(self)
                self.parser.feed_data(self._without_upgrade())
                data = data[upgrade.args[0] :]

    def _check_size(self) -> None:
        around = self._received - self._content
        if around > (_MOST_HEAD_BYTES if self._in_head else _MOST_HEAD_BYTES + self._content):
            raise _InvalidRequest("the head or the trailer is too long")

    def _without_upgrade(self) -> bytes:
        """The head of the request, which is answered as if it had no ``Upgrade``."""
        lines = [b" ".join((self.scope["method"].encode(), self.url, b"HTTP/1.1"))]
        lines += [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        return b"\r\n".join((*lines, b"", b""))

    def send_400_response(self, msg: str) -> None:
        # Requests that have not been answered yet, such as that with the invalid body, cannot be.
        answered = self._answered
        if answered is not None and not answered.response_complete:
            answered.disconnected = True
            answered.message_event.set()
        self.pipeline.clear()
        if answered is not None and answered.response_started and not answered.response_complete:
            self.transport.close()
        else:
            super().send_400_response(msg)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answered = cycle
        super()._start_asgi_task(cycle, app)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._received = self._content = self._pieces = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        # Blanks around a value are not part of it (RFC 9110, 5.5); the parser leaves those at its
        # end, with which a worker could not pass the request on.
        super().on_header(name, value.rstrip(b" \t"))

    def on_headers_complete(self) -> None:
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts != 1 and (hosts or self.parser.get_http_version() == "1.1"):
            raise _InvalidRequest("a request has one host")
        if self.parser.should_upgrade():
            self.scope["method"] = self.parser.get_method().decode("ascii")
            if self.scope["method"] == "CONNECT":
                raise _InvalidRequest("this is no proxy")
            return
        super().on_headers_complete()
        self._in_head = False
        self._received = 0
        # Nothing follows the head of an answer to HEAD.
        if self.scope["method"] != "HEAD":
            self.cycle.transport = cast(Any, _JoinedHead(self.transport))

    def on_body(self, body: bytes) -> None:
        self._content += len(body)
        self._pieces += 1
        if self._pieces > max(_FREE_PIECES, self._content / _LEAST_BYTES):
            raise _InvalidRequest("the body comes in tiny chunks")
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._checking.cancel()
        self._idle_ones.pop(self, None)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._note_use()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._note_use()

    def resume_writing(self) -> None:
        self._active = self.loop.time()
        super().resume_writing()
        self._note_use()

    def _check_later(self) -> None:
        # Also while nothing is written: every way of leaving an answer unread is found like this.
        self._checking = self.loop.call_later(self.unread_seconds / 2, self._check_progress)

    def _check_progress(self) -> None:
        """Abort the connection if the client has taken no byte of its answer for too long."""
        self._note_progress()
        if self._idle:
            # The rest of an answer may be too short for ``pause_writing``.
            self._idle_ones.setdefault(self)
        if (
            self.transport.get_write_buffer_size()
            and self.loop.time() - self._active >= self.unread_seconds
        ):
            self.transport.abort()
        else:
            self._check_later()

    def _note_progress(self) -> None:
        """Renew the time of the last activity if the client has taken a byte of an answer."""
        buffered = self.transport.get_write_buffer_size()
        # The kernel accepts more only once a third of its megabytes is free: its bytes count too.
        unread = buffered + _sent_unacknowledged(self.transport) if buffered else 0
        if buffered and unread != self._unread:
            self._active = self.loop.time()
        self._unread = unread

    def _wait_for_head(self) -> None:
        """Start the timer at the connection or first byte; stop it at the end of the head."""
        if not self._in_head:
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
