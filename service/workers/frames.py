"""Frames between a worker and the owner, on one stream for each request in progress.

A frame is a message of ``service.helpers.messages``; its first part is the kind. One connection
carries one request at a time: the worker sends ``REQUEST``, then ``BODY`` frames up to a ``LAST``;
the owner sends ``ANSWER``, then likewise. Closing the connection cancels the request.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from enum import Enum
from typing import cast

from service.helpers.messages import NUMBER, Unreadable, head_of, lengths_in, table_size

MOST_BYTES = 1 << 20
"""Of a frame. ``chunks`` keeps below it, and so does a head that the HTTP server has accepted."""
_CHUNK_BYTES = 1 << 18
_QUEUED_BYTES = 1 << 18
"""Received and not yet taken, above which the connection is not read."""


class Kind(Enum):
    REQUEST = b"request"
    CONTINUE = b"continue"
    """The app wants the body, for which the client waits to be asked (``Expect``)."""
    ANSWER = b"answer"
    BODY = b"body"
    LAST = b"last"
    """The last part of a body, which may be empty."""


Frame = tuple[Kind, list[bytes]]


def frame(kind: Kind, *parts: bytes) -> bytes:
    """The bytes of a frame."""
    content = (kind.value, *parts)
    return b"".join((head_of(content), *content))


def chunks(body: bytes, *, more: bool) -> Iterator[bytes]:
    """The frames of a part of a body. No frame if it is empty and ``more`` follows."""
    start = 0
    while len(body) - start > _CHUNK_BYTES:
        yield frame(Kind.BODY, body[start : start + _CHUNK_BYTES])
        start += _CHUNK_BYTES
    if not more:
        yield frame(Kind.LAST, body[start:])
    elif len(body) > start:
        yield frame(Kind.BODY, body[start:])


class FrameReader:
    """Splits a stream into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def read(self, data: bytes) -> Iterator[Frame]:
        """The frames that ``data`` completes; raises ``Unreadable``."""
        buffer = self._buffer
        buffer += data
        while len(buffer) >= NUMBER.size:
            table_end = NUMBER.size + table_size(bytes(buffer[: NUMBER.size]), MOST_BYTES)
            if len(buffer) < table_end:
                return
            lengths = lengths_in(bytes(buffer[NUMBER.size : table_end]), MOST_BYTES)
            end = table_end + sum(lengths)
            if len(buffer) < end:
                return
            content = bytes(buffer[table_end:end])
            del buffer[:end]
            yield _parsed(content, lengths)


def _parsed(content: bytes, lengths: list[int]) -> Frame:
    parts, start = [], 0
    for length in lengths:
        parts.append(content[start : start + length])
        start += length
    try:
        return Kind(parts[0]), parts[1:]
    except (IndexError, ValueError) as error:
        raise Unreadable("a frame has no known kind") from error


class FrameQueue:
    """Received frames that have not been taken. Stops reading the connection while it is long."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._frames: deque[Frame] = deque()
        self._bytes = 0
        self._waiting: asyncio.Future[None] | None = None
        self._ended = False

    def put(self, received: Frame) -> None:
        self._frames.append(received)
        self._bytes += sum(map(len, received[1]))
        if self._bytes > _QUEUED_BYTES:
            self._transport.pause_reading()
        self._wake()

    def end(self) -> None:
        """No frame follows: the connection is lost."""
        self._ended = True
        self._wake()

    async def take(self) -> Frame | None:
        """The next frame; ``None`` once the connection is lost. One call at a time."""
        while not self._frames:
            if self._ended:
                return None
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        taken = self._frames.popleft()
        was_long = self._bytes > _QUEUED_BYTES
        self._bytes -= sum(map(len, taken[1]))
        if was_long and self._bytes <= _QUEUED_BYTES:
            self._transport.resume_reading()
        return taken

    def discard(self) -> None:
        """Drop all frames. The connection is read again."""
        self._frames.clear()
        self._bytes = 0
        self._transport.resume_reading()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class FrameProtocol(asyncio.Protocol):
    """One end of a connection that carries frames."""

    def __init__(self) -> None:
        self.lost = False
        self._reader = FrameReader()
        self._writable = asyncio.Event()
        self._writable.set()

    def frame_received(self, received: Frame) -> None:
        """Called for each frame; may raise ``Unreadable``, which closes the connection."""
        raise NotImplementedError

    def write(self, data: bytes) -> None:
        """Write whole frames, which go out in one piece."""
        if not self.lost:
            self.transport.write(data)

    async def drained(self) -> None:
        """Wait until the other end has read most of what was written, or is gone."""
        await self._writable.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def eof_received(self) -> None:
        self.lost = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._writable.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        try:
            for received in self._reader.read(data):
                self.frame_received(received)
        except Unreadable:
            self.transport.abort()
