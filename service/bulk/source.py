"""Byte source of a bulk translation: file, pipe or terminal, with gzip decompression."""

from __future__ import annotations

import os
import select
import stat
import sys
import zlib
from collections.abc import Iterator
from io import FileIO

_READ_BYTES = 1 << 16
_EXPANDED_BYTES = 1 << 20
_PAUSE_SECONDS = 0.05
_GZIP = 31
"""``wbits`` of zlib for gzip with a window of 2**15 bytes."""


class BadSource(Exception):
    """The source cannot be read, or has changed since an earlier run."""


class Source:
    """An open file, or standard input for ``-``; raises ``OSError`` and ``BadSource``.

    A name that ends with ``.gz`` means gzip, unless ``compressed`` is given. ``begin`` and ``end``
    are a range of stored bytes; they need a regular file.
    """

    def __init__(
        self, name: str, *, compressed: bool | None = None, begin: int = 0, end: int | None = None
    ) -> None:
        standard = name == "-"
        self.name = "standard input" if standard else name
        if standard and sys.stdin is None:
            raise BadSource("standard input is closed")
        # Unbuffered, because a thread that waits in a buffered read makes Python abort at exit.
        self._file = FileIO(sys.stdin.fileno() if standard else name, "rb", closefd=not standard)
        status = os.fstat(self._file.fileno())
        self.size = status.st_size if stat.S_ISREG(status.st_mode) else None
        """Stored size in bytes, if known."""
        self.read = 0
        """Stored bytes that have been read."""
        self._compressed = name.lower().endswith(".gz") if compressed is None else compressed
        self._bytes = None if end is None else max(0, end - begin)
        if begin:
            self._file.seek(begin)

    def close(self) -> None:
        self._file.close()

    def pieces(self, *, prompt: bool = False) -> Iterator[bytes | None]:
        """The decompressed content. Does blocking I/O; raises ``OSError`` and ``BadSource``.

        With ``prompt``, yields ``None`` during pauses of the input.
        """
        pieces = self._pieces(prompt)
        return self._expanded(pieces) if self._compressed else pieces

    def _pieces(self, prompt: bool) -> Iterator[bytes | None]:
        while True:
            if prompt and not select.select([self._file], [], [], _PAUSE_SECONDS)[0]:
                yield None
            left = _READ_BYTES if self._bytes is None else self._bytes - self.read
            while (piece := self._file.read(min(_READ_BYTES, left))) is None:
                # Another program has made the input non-blocking.
                select.select([self._file], [], [])
            if not piece:
                return
            self.read += len(piece)
            yield piece

    def _expanded(self, pieces: Iterator[bytes | None]) -> Iterator[bytes | None]:
        """Decompress; concatenated gzip members are one stream, as for gzip itself."""
        member, behind = None, False
        for piece in pieces:
            if piece is None:
                yield None
                continue
            compressed = piece
            while compressed:
                if member is None:
                    if behind:
                        # The padding of tapes, which gzip ignores as well.
                        compressed = compressed.lstrip(b"\0")
                        if not compressed:
                            break
                    member = zlib.decompressobj(_GZIP)
                try:
                    expanded = member.decompress(compressed, _EXPANDED_BYTES)
                    while expanded:
                        yield expanded
                        compressed = member.unconsumed_tail
                        expanded = member.decompress(compressed, _EXPANDED_BYTES)
                except zlib.error as error:
                    raise BadSource(f"{self.name} is not gzip, or is damaged: {error}") from error
                compressed = member.unused_data
                if member.eof:
                    member, behind = None, True
        if member is not None:
            raise BadSource(f"{self.name} ends in the middle of its compressed data")
