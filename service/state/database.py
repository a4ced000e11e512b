"""Asynchronous access to one SQLite file through a single thread. Independent of tables.

Several processes may share the file. Each uses its own transactions and sees the committed writes
of other processes. Awaiting a method never blocks the event loop, however slow the disk is.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, Self, TypeVar

from service.state.errors import StateFailed, StateUnavailable
from service.state.schema import MIGRATIONS

logger = logging.getLogger(__name__)

T = TypeVar("T")

FILE_NAME = "dragoman.db"

_BUSY_SECONDS = 5.0
"""How long to wait for another process's write lock."""
_RETRY_SECONDS = 0.01
_IN_MEMORY = ":memory:"
_ELSEWHERE = "let this process write there, or set DRAGOMAN_STATE to a directory where it may"


class Database:
    """An SQLite connection; use it once, as ``async with Database(path) as database``."""

    def __init__(self, path: Path | None, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> None:
        """``path`` is the file, whose directory is created; ``None`` is an in-memory database."""
        self.path = path
        self._migrations = migrations
        self._thread: ThreadPoolExecutor | None = None
        self._connection: sqlite3.Connection | None = None

    async def open(self) -> None:
        """Open or create the file and run pending migrations; raises ``StateUnavailable``."""
        assert self._thread is None, "a database is opened once"
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="state")
        try:
            await self._on_thread(self._open)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Finish queued work and close the file. May be called twice."""
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.wrap_future(thread.submit(self._close))
            thread.shutdown()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work`` on the thread in one read transaction; raises ``StateFailed``."""
        return await self._on_thread(lambda: self._transact(work, "DEFERRED"))

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work`` on the thread in one write transaction, rolled back if it raises.

        The transaction holds the write lock from its start (``BEGIN IMMEDIATE``), so values that
        ``work`` reads first stay valid while it writes. Raises ``StateFailed``.
        """
        return await self._on_thread(lambda: self._transact(work, "IMMEDIATE"))

    async def _on_thread(self, work: Callable[[], T]) -> T:
        assert self._thread is not None, "the database is not open"
        return await asyncio.wrap_future(self._thread.submit(work))

    def _transact(
        self,
        work: Callable[[sqlite3.Connection], T],
        mode: Literal["DEFERRED", "IMMEDIATE"],
    ) -> T:
        connection = self._connection
        assert connection is not None
        try:
            with connection:
                connection.execute(f"BEGIN {mode}")
                return work(connection)
        except sqlite3.Error as error:
            logger.error("%s: %s", self.path or _IN_MEMORY, error)
            raise StateFailed from error

    def _open(self) -> None:
        path = self.path
        try:
            if path is not None:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._connection = connection = sqlite3.connect(
                path or _IN_MEMORY, timeout=_BUSY_SECONDS, isolation_level=None
            )
            _log_writes_ahead(connection)
            # A power failure may lose the last transactions but cannot corrupt the file.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            self._migrate(connection)
        except OSError as error:
            problem = f"cannot make the directory: {error.strerror}"
            raise StateUnavailable(self._place, problem, _ELSEWHERE) from error
        except sqlite3.Error as error:
            raise StateUnavailable(self._place, str(error), _remedy(error)) from error

    def _migrate(self, connection: sqlite3.Connection) -> None:
        with connection:
            # Also proves that the file is writable, and lets one process migrate at a time.
            connection.execute("BEGIN IMMEDIATE")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > len(self._migrations):
                raise StateUnavailable(
                    self._place,
                    f"was written by a later Dragoman (schema {version}, and this one knows "
                    f"{len(self._migrations)})",
                    "run that version, or set DRAGOMAN_STATE to another directory",
                )
            for statements in self._migrations[version:]:
                for statement in statements:
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {len(self._migrations)}")

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def _place(self) -> Path:
        return self.path or Path(_IN_MEMORY)


def _log_writes_ahead(connection: sqlite3.Connection) -> None:
    """Switch the file to a write-ahead log, so that readers never wait for a writer.

    Connections that open a file at the same time can all hold a lock that the switch needs. SQLite
    then fails at once instead of waiting for its timeout; hence the loop.
    """
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(_RETRY_SECONDS)


def _code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code, or 0 for an error that Python's module raised itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _remedy(error: sqlite3.Error) -> str:
    match _code(error):
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return "put back a copy of it, or move it away to begin with an empty one"
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return "another process keeps it locked; end that one first"
        case sqlite3.SQLITE_FULL:
            return "make room on the disk"
        case _:
            return _ELSEWHERE
