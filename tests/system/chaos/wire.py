"""Minimal HTTP client, cheap enough for two hundred clients in one process.

It can also misbehave: hang up in the middle of a request or an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass

_NO_LINGERING = struct.pack("ii", 1, 0)


class Gone(Exception):
    """The server closed the connection in the middle of a request or an answer."""


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    body: bytes = b""
    content_type: str = "application/json"
    key: str | None = None

    def encode(self) -> tuple[bytes, bytes]:
        """Head and body as bytes."""
        lines = [f"{self.method} {self.path} HTTP/1.1", "host: chaos"]
        if self.key is not None:
            lines.append(f"authorization: Bearer {self.key}")
        if self.body or self.method == "POST":
            lines += [f"content-type: {self.content_type}", f"content-length: {len(self.body)}"]
        return "\r\n".join([*lines, "", ""]).encode(), self.body


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


class Connection:
    """A persistent connection, one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int, address: str = "127.0.0.1") -> Connection:
        """A connection from a local address, which is the caller without a key."""
        local = (address, 0)
        return cls(*await asyncio.open_connection("127.0.0.1", port, local_addr=local))

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def head(self) -> tuple[int, dict[str, str]]:
        """Status and headers of the next answer; raises ``Gone``."""
        try:
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except (asyncio.IncompleteReadError, OSError) as error:
            raise Gone(repr(error)) from error
        first, *lines = head.strip().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        return int(first.split(" ")[1]), headers

    async def answer(self) -> Answer:
        """All of the next answer; raises ``Gone``."""
        status, headers = await self.head()
        try:
            if "content-length" in headers:
                body = await self._reader.readexactly(int(headers["content-length"]))
            elif status == 204:
                body = b""
            else:
                body = b"".join([chunk async for chunk in self._chunks()])
        except (asyncio.IncompleteReadError, OSError) as error:
            raise Gone(repr(error)) from error
        return Answer(status, headers, body)

    async def some(self) -> None:
        """Wait for the first bytes of an answer."""
        with contextlib.suppress(OSError):
            await self._reader.read(1)

    def hang_up(self, *, rudely: bool = False) -> None:
        """Close the connection, without what is not yet sent; ``rudely`` with a reset.

        To close it after all is sent would leave it open for ever if the server reads no more.
        """
        if rudely:
            connection: socket.socket = self._writer.get_extra_info("socket")
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGERING)
        self._writer.transport.abort()

    async def _chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self._reader.readline() or b"0", 16):
            yield await self._reader.readexactly(size)
            await self._reader.readexactly(2)
        await self._reader.readexactly(2)
