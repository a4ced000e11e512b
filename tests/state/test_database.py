from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from service.state.database import FILE_NAME, Database
from service.state.errors import StateFailed, StateUnavailable
from service.state.schema import MIGRATIONS


def put(value: int, connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO usage VALUES ('', '2026-11', ?, 0)", (value,))


def values(connection: sqlite3.Connection) -> list[int]:
    return [value for (value,) in connection.execute("SELECT characters FROM usage")]


async def test_written_rows_can_be_read_and_survive_reopening(tmp_path: Path) -> None:
    for path in (None, tmp_path / "a" / "b" / FILE_NAME):
        async with Database(path) as database:
            await database.write(lambda connection: put(7, connection))
            assert await database.read(values) == [7]
    async with Database(path) as database:
        assert await database.read(values) == [7]
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == [FILE_NAME]


async def test_failed_transaction_writes_nothing() -> None:
    def half(connection: sqlite3.Connection) -> None:
        put(7, connection)
        raise RuntimeError("half done")

    async with Database(None) as database:
        with pytest.raises(RuntimeError, match="half done"):
            await database.write(half)
        assert await database.read(values) == []


async def test_all_calls_run_on_one_thread_that_ends_with_the_database(tmp_path: Path) -> None:
    async with Database(tmp_path / FILE_NAME) as database:
        threads = await asyncio.gather(
            *(database.read(lambda _: threading.current_thread()) for _ in range(20))
        )
        assert len(set(threads)) == 1
        assert threads[0] is not threading.main_thread()
    assert not threads[0].is_alive()


async def test_concurrent_connections_see_each_others_writes(tmp_path: Path) -> None:
    databases = [Database(tmp_path / FILE_NAME) for _ in range(8)]
    await asyncio.gather(*(database.open() for database in databases))
    for database in databases[:3]:
        await database.write(lambda c: c.execute("DELETE FROM usage"))
        await database.write(lambda connection: put(len(values(connection)), connection))
        assert [await other.read(values) for other in databases] == [[0]] * 8
    await asyncio.gather(*(database.close() for database in databases))


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection that holds the write lock of a file without a write-ahead log."""
    connection = sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)
    with closing(connection):
        connection.execute("BEGIN IMMEDIATE")
        yield connection


async def test_opening_waits_for_another_process_that_opens_the_file(
    tmp_path: Path, locked: sqlite3.Connection
) -> None:
    database = Database(tmp_path / FILE_NAME)
    opening = asyncio.create_task(database.open())
    await asyncio.sleep(0.1)
    assert not opening.done()
    locked.rollback()
    await opening
    assert await database.read(values) == []
    await database.close()


@pytest.mark.usefixtures("locked")
async def test_file_that_stays_locked_is_an_error_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.state.database._BUSY_SECONDS", 0.1)
    with pytest.raises(StateUnavailable, match="database is locked; another process keeps it"):
        await Database(tmp_path / FILE_NAME).open()


async def test_older_file_is_migrated_and_keeps_its_rows(tmp_path: Path) -> None:
    async with Database(tmp_path / FILE_NAME) as database:
        await database.write(lambda connection: put(7, connection))
    later = (*MIGRATIONS, ("ALTER TABLE usage ADD COLUMN images INTEGER NOT NULL DEFAULT 3",))
    for _ in range(2):
        async with Database(tmp_path / FILE_NAME, later) as database:
            rows = await database.read(lambda c: c.execute("SELECT * FROM usage").fetchall())
            assert rows == [("", "2026-11", 7, 0, 3)]
    with pytest.raises(StateUnavailable, match=r"later Dragoman \(schema 3, and this one knows 2"):
        await Database(tmp_path / FILE_NAME).open()


async def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    broken = (*MIGRATIONS, ("CREATE TABLE new (a)", "CREATE TABLE new (a)"))
    with pytest.raises(StateUnavailable, match="already exists"):
        await Database(tmp_path / FILE_NAME, broken).open()
    async with Database(tmp_path / FILE_NAME) as database:
        assert await database.read(values) == []


async def test_unusable_files_and_paths_are_errors_with_a_remedy(tmp_path: Path) -> None:
    for name in ("file", "text"):
        (tmp_path / name).write_text("no database" * 100)
    (tmp_path / FILE_NAME).mkdir()
    remedy = "set DRAGOMAN_STATE to a directory"
    for path, problem in (
        (tmp_path / "text", "file is not a database; put back a copy of it, or move it away"),
        (tmp_path / "file" / FILE_NAME, remedy),
        (tmp_path / FILE_NAME, remedy),
    ):
        with pytest.raises(StateUnavailable, match=problem):
            await Database(path).open()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to every file")
async def test_read_only_file_error_has_remedy(tmp_path: Path) -> None:
    async with Database(tmp_path / FILE_NAME):
        pass
    (tmp_path / FILE_NAME).chmod(0o400)
    with pytest.raises(StateUnavailable, match="set DRAGOMAN_STATE to a directory"):
        await Database(tmp_path / FILE_NAME).open()


async def test_failure_is_logged_and_hides_the_file_from_callers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Database(tmp_path / FILE_NAME) as database:
        with caplog.at_level(logging.ERROR), pytest.raises(StateFailed) as failure:
            await database.read(lambda connection: connection.execute("SELECT * FROM absent"))
        assert await database.read(values) == []
    assert "no such table: absent" in caplog.text
    assert "absent" not in str(failure.value)
    assert str(tmp_path) not in str(failure.value)
