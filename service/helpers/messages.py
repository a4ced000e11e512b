"""What is said between a process and its helper: some byte strings at a time, and nothing else.

A message is the number of its parts and the length of each in eight bytes, then the parts. Whoever
reads refuses what is too large before taking it in: a helper that reads documents of strangers may
say anything.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import Enum
from typing import BinaryIO

NUMBER = struct.Struct("<Q")


class Outcome(Enum):
    """What the first part of an answer says about the others."""

    DONE = b"done"
    LAST = b"last"
    """Done, and the helper goes because of the memory that it took."""
    FAILED = b"failed"
    """The only part says where."""


OUT_OF_MEMORY = 97
"""The exit code of a helper that needed more than it may have, and so cannot even say so."""


class Unreadable(Exception):
    """What came is no message, or a larger one than is read; nobody knows what follows it."""


def head_of(parts: Sequence[bytes]) -> bytes:
    """What stands before the parts."""
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
    """The next message, of any size; ``None`` once nobody writes any more."""
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
