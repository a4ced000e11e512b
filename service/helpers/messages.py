"""Wire format between the server and its helper processes: messages of length-prefixed parts.

A message is the number of parts and the length of each, as 8-byte integers, then the parts. The
server refuses an oversized message before reading it, because a helper that parses untrusted
documents could be compromised.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import Enum
from typing import BinaryIO

NUMBER = struct.Struct("<Q")


class Outcome(Enum):
    """First part of an answer: the meaning of the following parts."""

    DONE = b"done"
    LAST = b"last"
    """Done, and the helper exits because its memory has grown."""
    FAILED = b"failed"
    """One part follows: the exception type and traceback."""


OUT_OF_MEMORY = 97
"""Exit code of a helper that ran out of memory and cannot send an answer."""


class Unreadable(Exception):
    """The message is malformed or too large; the stream cannot be read further."""


def head_of(parts: Sequence[bytes]) -> bytes:
    """Header of a message: number and lengths of its parts."""
    return b"".join(map(NUMBER.pack, (len(parts), *map(len, parts))))


def lengths_in(table: bytes, most_bytes: int) -> list[int]:
    """The lengths of the parts; raises ``Unreadable``."""
    lengths = [length for (length,) in NUMBER.iter_unpack(table)]
    if sum(lengths) > most_bytes:
        raise Unreadable(f"a message has {sum(lengths)} bytes; at most {most_bytes} are read")
    return lengths


def table_size(number: bytes, most_bytes: int) -> int:
    """Bytes of the table of lengths that follows; raises ``Unreadable``."""
    (count,) = NUMBER.unpack(number)
    size = int(count) * NUMBER.size
    if size > most_bytes:
        raise Unreadable(f"a message has {count} parts")
    return size


def write(stream: BinaryIO, parts: Sequence[bytes]) -> None:
    stream.write(head_of(parts))
    for part in parts:
        stream.write(part)
    stream.flush()


def read(stream: BinaryIO) -> list[bytes] | None:
    """The next message, of any size; ``None`` at the end of the stream."""
    try:
        (count,) = NUMBER.unpack(_exactly(stream, NUMBER.size))
        table = _exactly(stream, count * NUMBER.size)
        return [_exactly(stream, length) for (length,) in NUMBER.iter_unpack(table)]
    except EOFError:
        return None


def _exactly(stream: BinaryIO, size: int) -> bytes:
    content = stream.read(size)
    if len(content) < size:
        raise EOFError
    return content
