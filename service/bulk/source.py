"""A file, a pipe or what somebody types, as pieces of bytes; compressed ones are expanded."""

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
"""What zlib calls a window of 2**15 bytes in gzip's frame."""


class BadSource(Exception):
    """What is to be translated cannot be read, or is not what it was."""


class Source:
    """An open file, or standard input for ``-``; raises ``OSError``.

    What is named ``.gz`` is compressed, unless ``compressed`` says otherwise.
    """

    def __init__(self, name: str, *, compressed: bool | None = None) -> None:
        standard = name == "-"
        self.name = "standard input" if standard else name
        # Unbuffered, because a thread that waits in a buffered read makes Python abort at exit.
        self._file = FileIO(sys.stdin.fileno() if standard else name, "rb", closefd=not standard)
        status = os.fstat(self._file.fileno())
        self.size = status.st_size if stat.S_ISREG(status.st_mode) else None
        """In bytes, where it is known."""
        self.read = 0
        """Bytes that have been read of it."""
        self._compressed = name.lower().endswith(".gz") if compressed is None else compressed

    def close(self) -> None:
        self._file.close()

    def pieces(self, *, prompt: bool = False) -> Iterator[bytes | None]:
        """All that is in it. Blocks; raises ``OSError`` and ``BadSource``.

        ``prompt`` puts a ``None`` wherever nothing has come for a moment.
        """
        pieces = self._pieces(prompt)
        return self._expanded(pieces) if self._compressed else pieces

    def _pieces(self, prompt: bool) -> Iterator[bytes | None]:
        while True:
            if prompt and not select.select([self._file], [], [], _PAUSE_SECONDS)[0]:
                yield None
            piece = self._file.read(_READ_BYTES)
            if not piece:
                return
            self.read += len(piece)
            yield piece

    def _expanded(self, pieces: Iterator[bytes | None]) -> Iterator[bytes | None]:
        """Several compressed files one after another are one, as for gzip itself."""
        member = None
        for piece in pieces:
            if piece is None:
                yield None
                continue
            rest = piece
            while rest:
                if member is None:
                    member = zlib.decompressobj(_GZIP)
                try:
                    expanded = member.decompress(rest, _EXPANDED_BYTES)
                    while expanded:
                        yield expanded
                        rest = member.unconsumed_tail
                        expanded = member.decompress(rest, _EXPANDED_BYTES)
                except zlib.error as error:
                    raise BadSource(f"{self.name} is not gzip, or is damaged: {error}") from error
                rest = member.unused_data
                if member.eof:
                    member = None
        if member is not None:
            raise BadSource(f"{self.name} ends in the middle of its compressed data")
