"""Transactions on the persistent state, in threads: an SQLite file or a PostgreSQL database.

Several processes may share either. SQLite has one thread and one connection, PostgreSQL a few.
SQLAlchemy's engines for asyncio would do the same by greenlets and, for SQLite, by a thread for
each connection. No request waits here unless it reads or writes stored state itself.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self, TypeVar

import sqlalchemy
from pydantic import SecretStr
from sqlalchemy import Connection, event, inspect, text
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from service.state.errors import StateFailed, StateUnavailable
from service.state.schema import LATEST, METADATA, create

logger = logging.getLogger(__name__)
# It reports its plugins when it is imported, and then each connection.
logging.getLogger("alembic").setLevel(logging.WARNING)

T = TypeVar("T")

FILE_NAME = "dragoman.db"

_THREADS = 4
"""Connections to PostgreSQL of one process."""
_BUSY_SECONDS = 5.0
"""How long to wait for another process's write lock on a file, or for a connection."""
_STATEMENT_SECONDS = 30
_RETRY_SECONDS = 0.01
_OWN = "set DRAGOMAN_STATE to a place of its own"
_ELSEWHERE = "let this process write there, or set DRAGOMAN_STATE to a directory where it may"


class Database:
    """State of one process; use it once, as ``async with Database(place) as database``."""

    def __init__(self, place: Path | SecretStr | None, *, upgrade: bool = False) -> None:
        """``place`` is an SQLite file, whose directory is created, the ``postgresql://`` address
        of a database, or ``None`` for a database in memory. Files are always upgraded; a
        PostgreSQL database only with ``upgrade``, because other replicas may use it."""
        self._place = place
        self._upgrades = upgrade or not isinstance(place, SecretStr)
        self._threads: ThreadPoolExecutor | None = None
        self._engine: Engine | None = None

    @classmethod
    def at(cls, state: Path | SecretStr, *, upgrade: bool = False) -> Self:
        """The database of ``DRAGOMAN_STATE``: that address, or the file in that directory."""
        place = state if isinstance(state, SecretStr) else state / FILE_NAME
        return cls(place, upgrade=upgrade)

    @property
    def name(self) -> str:
        """The file or address, without a password."""
        if isinstance(self._place, SecretStr):
            return _shown(_url(self._place))
        return str(self._place or ":memory:")

    async def open(self) -> None:
        """Connect, and create or check the tables; raises ``StateUnavailable``."""
        assert self._threads is None, "a database is opened once"
        number = _THREADS if isinstance(self._place, SecretStr) else 1
        self._threads = ThreadPoolExecutor(number, thread_name_prefix="state")
        try:
            await self._on_thread(self._open)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Finish queued work and close the connections. May be called twice."""
        threads, self._threads = self._threads, None
        if threads is not None:
            await asyncio.to_thread(threads.shutdown)
            if self._engine is not None:
                await asyncio.to_thread(self._engine.dispose)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` in a thread in one read transaction; raises ``StateFailed``."""
        return await self._on_thread(lambda: self._transact(work, writes=False, lock=None))

    async def write(self, work: Callable[[Connection], T], lock: str | None = None) -> T:
        """Run ``work`` in a thread in one write transaction, rolled back if it raises.

        What ``work`` reads stays valid while it writes: SQLite locks the file from the start, and
        PostgreSQL all transactions with the same ``lock``. Without one, ``work`` has to consist of
        statements that are safe beside others. A caller that is cancelled before the end has
        written nothing. Raises ``StateFailed``.
        """
        cancelled = threading.Event()

        def unless_cancelled(connection: Connection) -> T:
            done = work(connection)
            if cancelled.is_set():
                # The caller learns nothing of it, and may ask again.
                raise StateFailed
            return done

        try:
            return await self._on_thread(lambda: self.write_here(unless_cancelled, lock))
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def write_here(self, work: Callable[[Connection], T], lock: str | None = None) -> T:
        """The same as ``write``, in the calling thread."""
        return self._transact(work, writes=True, lock=lock)

    async def _on_thread(self, work: Callable[[], T]) -> T:
        assert self._threads is not None, "the database is not open"
        return await asyncio.wrap_future(self._threads.submit(work))

    def _transact(self, work: Callable[[Connection], T], *, writes: bool, lock: str | None) -> T:
        assert self._engine is not None
        try:
            with self._engine.execution_options(writes=writes).begin() as connection:
                if lock is not None:
                    _lock(connection, lock)
                return work(connection)
        except SQLAlchemyError as error:
            logger.error("%s: %s", self.name, _cause(error))
            raise StateFailed from error

    def _open(self) -> None:
        try:
            if isinstance(self._place, SecretStr):
                self._engine = _postgres(self._place)
            else:
                self._engine = _sqlite(self._place)
            # A write transaction proves that a file is writable.
            with self._engine.execution_options(writes=self._upgrades).begin() as connection:
                self._check_or_upgrade(connection)
        except OSError as error:
            problem = f"cannot make the directory: {error.strerror}"
            raise StateUnavailable(self.name, problem, _ELSEWHERE) from error
        except SQLAlchemyError as error:
            raise StateUnavailable(self.name, _cause(error), _remedy(error)) from error

    def _check_or_upgrade(self, connection: Connection) -> None:
        if connection.dialect.name == "postgresql":
            encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
            if encoding != "UTF8":
                raise StateUnavailable(
                    self.name,
                    f"has the encoding {encoding}, which cannot store all texts",
                    "create the database with ENCODING 'UTF8' TEMPLATE template0",
                )
        if self._upgrades:
            # One process upgrades at a time.
            _lock(connection, "schema")
        present = self._schema_of(connection)
        if present > LATEST:
            raise StateUnavailable(
                self.name,
                f"was written by a later Dragoman (schema {present}, and this one knows {LATEST})",
                "run that version, or set DRAGOMAN_STATE to another place",
            )
        if present == LATEST:
            return
        if not self._upgrades:
            problem = f"has schema {present or 'none'}, and this Dragoman needs {LATEST}"
            raise StateUnavailable(self.name, problem, "run `dragoman state upgrade`")
        if present:
            from service.state.migrations.upgrading import upgrade

            upgrade(connection, present)
        else:
            if taken := METADATA.tables.keys() & set(inspect(connection).get_table_names()):
                raise StateUnavailable(self.name, f"has another program's table {min(taken)}", _OWN)
            create(connection)
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql(f"PRAGMA user_version = {LATEST}")

    def _schema_of(self, connection: Connection) -> int:
        """The schema of the tables; 0 without tables."""
        if inspect(connection).has_table("alembic_version"):
            version = text("SELECT version_num FROM alembic_version")
            found = str(connection.execute(version).scalar())
            if not found.isdecimal():
                problem = f"is of another program that uses Alembic, at its revision {found}"
                raise StateUnavailable(self.name, problem, _OWN)
            return int(found)
        if connection.dialect.name == "sqlite":
            # Files of a Dragoman before Alembic, whose migrations had the same numbers.
            return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
        return 0


def _postgres(address: SecretStr) -> Engine:
    url = _url(address)
    if importlib.util.find_spec("psycopg") is None:
        raise StateUnavailable(
            _shown(url),
            "the driver of PostgreSQL is not installed",
            "install dragoman with its extra fleet",
        )
    ours = {
        "connect_timeout": int(_BUSY_SECONDS),
        "tcp_user_timeout": 1000 * _STATEMENT_SECONDS,
        "application_name": "dragoman",
    }
    # A process that is lost or stopped in a transaction keeps no lock from the others.
    session = (
        f"-c statement_timeout={_STATEMENT_SECONDS}s "
        f"-c idle_in_transaction_session_timeout={_STATEMENT_SECONDS}s "
        "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3"
    )
    engine = sqlalchemy.create_engine(
        url,
        pool_size=_THREADS,
        # Connections that a restart of the database has closed are opened again, not reported.
        pool_pre_ping=True,
        # Parameters of statements are texts and digests of keys.
        hide_parameters=True,
        connect_args={
            **{name: value for name, value in ours.items() if name not in url.query},
            # PostgreSQL takes the later one of two values of a setting.
            "options": f"{session} {url.query.get('options', '')}",
            "client_encoding": "UTF8",
        },
    )
    event.listen(engine, "do_connect", _connect)
    return engine


def _connect(_: object, __: object, arguments: Sequence[Any], options: dict[str, Any]) -> Any:
    from service.state.bounded_connection import BoundedConnection

    return BoundedConnection.connect(*arguments, **options)


def _sqlite(path: Path | None) -> Engine:
    arguments: dict[str, Any] = {"timeout": _BUSY_SECONDS, "check_same_thread": False}
    options: dict[str, Any] = {"pool_size": 1}
    if path is None:
        options = {"poolclass": StaticPool}
    else:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    engine = sqlalchemy.create_engine(
        URL.create("sqlite", database=str(path) if path else None),
        hide_parameters=True,
        connect_args=arguments,
        **options,
    )
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _prepare(connection: sqlite3.Connection, _: object) -> None:
    # Transactions begin with the statements of ``_begin``, not with the first write.
    connection.isolation_level = None
    _log_writes_ahead(connection)
    # A power failure may lose the last transactions but cannot corrupt the file.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


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


def _lock(connection: Connection, name: str) -> None:
    """Let transactions of one name follow one another; SQLite's write transactions do anyway."""
    if connection.dialect.name == "postgresql":
        number = zlib.crc32(b"dragoman " + name.encode())
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})


def _url(address: SecretStr) -> URL:
    """The address with the driver's name; raises ``StateUnavailable``."""
    try:
        url = make_url(address.get_secret_value())
    except (ArgumentError, ValueError) as error:
        problem, remedy = "is no address", "write postgresql://USER:PASSWORD@HOST/DATABASE"
        raise StateUnavailable("DRAGOMAN_STATE", problem, remedy) from error
    return url.set(drivername="postgresql+psycopg")


def _shown(url: URL) -> str:
    """The address without passwords, which may also be among the options."""
    query = {name: value for name, value in url.query.items() if "password" not in name}
    return url.set(query=query).render_as_string(hide_password=True)


def _cause(error: SQLAlchemyError) -> str:
    """The database's own message, in one line, without the statement."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    return " ".join(str(cause).split())


def _code(error: object) -> int:
    """Return SQLite's primary result code, or 0 for an error that Python's module raised itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _remedy(error: SQLAlchemyError) -> str:
    cause = error.orig if isinstance(error, DBAPIError) else error
    if not isinstance(cause, sqlite3.Error):
        return "check that the database runs, and DRAGOMAN_STATE"
    match _code(cause):
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return "put back a copy of it, or move it away to begin with an empty one"
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return "another process keeps it locked; end that one first"
        case sqlite3.SQLITE_FULL:
            return "make room on the disk"
        case _:
            return _ELSEWHERE
