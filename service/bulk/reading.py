"""Splits a source file into blocks of rows, in bounded memory.

Block boundaries depend only on the source, so they are the same in every run. Only for interactive
input a block also ends after a short pause.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Protocol, Self, TypeVar

from service.bulk.rows import Format, Row
from service.bulk.source import BadSource, Source


class _File(Protocol):
    def close(self) -> None: ...


F = TypeVar("F", bound=_File)


class Digest(Protocol):
    """A hash object of ``hashlib``."""

    def update(self, content: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...
    def copy(self) -> Self: ...


LINE_BYTES = 4 << 20
"""Largest line, in bytes."""


class BadLine(Exception):
    """A line that cannot be translated; ``number`` counts from 1."""

    def __init__(self, number: int, reason: object) -> None:
        super().__init__(f"line {number}: {reason}")
        self.number = number


@dataclass(frozen=True, slots=True)
class Place:
    """Position between two lines of a source: counts and hash of the content before it."""

    lines: int = 0
    bytes: int = 0
    """Bytes after decompression."""
    sha256: str = hashlib.sha256().hexdigest()
    """Hash of these bytes."""


@dataclass(frozen=True, slots=True)
class BlockSize:
    """A block ends at a line number that is a multiple of ``lines``, or when it has ``bytes``."""

    lines: int = 4096
    bytes: int = 1 << 20


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive lines of a source."""

    start: Place
    header: bytes
    """Written before the rows: the file's header, in the first block."""
    lines: tuple[bytes, ...]
    rows: tuple[Row, ...]
    """One for each line."""
    before: Digest
    """Hash of all content before the block."""
    read: tuple[int, int]
    """Stored bytes of the source that were read before and after the block."""

    def number(self, row: int) -> int:
        """Line number of a row in the source, from 1."""
        return self.start.lines + row + 1

    def place(self, rows: int) -> Place:
        """The place after the first ``rows`` rows."""
        content = b"".join(self.lines[:rows])
        digest = self.before.copy()
        digest.update(content)
        start = self.start
        return Place(start.lines + rows, start.bytes + len(content), digest.hexdigest())


def blocks(
    source: Source,
    rows: Format,
    size: BlockSize,
    since: Place | None = None,
    *,
    prompt: bool = False,
) -> Iterator[Block]:
    """The blocks after ``since``. Does blocking I/O.

    The content before ``since`` is read again to check its hash. Raises ``BadSource`` if it has
    changed, ``BadLine`` and ``OSError``.
    """
    digest = hashlib.sha256()
    place = since or Place()
    first_line, pieces = _skipped(source, source.pieces(prompt=prompt), place, digest)
    if place.lines:
        rows.header(first_line)
    lines: list[bytes] = []
    held, read = 0, source.read

    def cut() -> Block:
        nonlocal place, held, read
        header = rows.header(lines[0]) if not place.lines else None
        if header is not None:
            digest.update(lines[0])
            place = Place(1, len(lines[0]), digest.hexdigest())
            del lines[0]
        found = tuple(map(rows.read, lines))
        block = Block(place, header or b"", tuple(lines), found, digest.copy(), (read, source.read))
        read = source.read
        place = block.place(len(lines))
        digest.update(b"".join(lines))
        lines.clear()
        held = 0
        return block

    try:
        for line in _lines(pieces):
            if line is not None:
                lines.append(line)
                held += len(line)
            full = (place.lines + len(lines)) % size.lines == 0 or held >= size.bytes
            if lines and (full or line is None):
                yield cut()
    except _LineTooLong:
        if lines:
            yield cut()
        raise BadLine(place.lines + 1, f"is longer than {LINE_BYTES >> 20} MiB") from None
    if lines:
        yield cut()


class _LineTooLong(Exception):
    pass


def _skipped(
    source: Source, pieces: Iterator[bytes | None], place: Place, digest: Digest
) -> tuple[bytes, Iterator[bytes | None]]:
    """Skip to ``place`` and check the hash; returns the first line and the pieces after it."""
    first, left = b"", place.bytes
    while left:
        piece = next(pieces, b"")
        if piece == b"":
            raise BadSource(f"{source.name} has become shorter than what was translated of it")
        if piece is None:
            continue
        before, behind = piece[:left], piece[left:]
        if b"\n" not in first:
            first = (first + before).partition(b"\n")[0] + b"\n" * (b"\n" in before)
        digest.update(before)
        left -= len(before)
        if behind:
            pieces = chain([behind], pieces)
    if digest.hexdigest() != place.sha256:
        raise BadSource(
            f"{source.name} has changed in its first {place.lines} lines, which were translated "
            "already"
        )
    return first, pieces


def _lines(pieces: Iterator[bytes | None]) -> Iterator[bytes | None]:
    """Lines with their line ends; ``None`` pieces (pauses) are passed through."""
    unfinished = b""
    for piece in pieces:
        if piece is None:
            yield None
            continue
        *whole, unfinished = (unfinished + piece).split(b"\n")
        for line in whole:
            if len(line) >= LINE_BYTES:
                raise _LineTooLong
            yield line + b"\n"
        if len(unfinished) > LINE_BYTES:
            raise _LineTooLong
    if unfinished:
        yield unfinished


async def in_thread(found: Iterator[Block]) -> AsyncIterator[Block]:
    """The same blocks, read in a thread while the event loop runs."""
    # A daemon thread, because asyncio.to_thread joins its threads at exit, and a thread that waits
    # for terminal input cannot be interrupted.
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[Block | BaseException | None] = asyncio.Queue()
    wanted = threading.Semaphore()

    def read() -> None:
        outcome: Block | BaseException | None
        while True:
            wanted.acquire()
            try:
                outcome = next(found, None)
            except Exception as error:
                # Raised by the consumer of the blocks, if there still is one.
                outcome = error
            try:
                loop.call_soon_threadsafe(arrived.put_nowait, outcome)
            except RuntimeError:
                return  # The loop has been closed: there is no consumer.
            if not isinstance(outcome, Block):
                return

    threading.Thread(target=read, name="reader", daemon=True).start()
    while (outcome := await arrived.get()) is not None:
        if isinstance(outcome, BaseException):
            raise outcome
        yield outcome
        wanted.release()


async def opened(open_: Callable[[], F]) -> F:
    """The file that a function opens in a thread: a named pipe waits for its other end.

    Raises the ``OSError`` or ``BadSource`` of the function.
    """
    # A daemon thread, for the reason that ``in_thread`` has.
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[F] = loop.create_future()

    def deliver(file: F) -> None:
        file.close() if outcome.cancelled() else outcome.set_result(file)

    def fail(error: Exception) -> None:
        if not outcome.cancelled():
            outcome.set_exception(error)

    def work() -> None:
        # A closed loop has no caller.
        with suppress(RuntimeError):
            try:
                loop.call_soon_threadsafe(deliver, open_())
            except (OSError, BadSource) as error:
                loop.call_soon_threadsafe(fail, error)

    threading.Thread(target=work, name="opener", daemon=True).start()
    return await outcome
