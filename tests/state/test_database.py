from __future__ import annotations

import asyncio
import logging
import os
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import Connection, delete, insert, inspect, select, text

from service.state import database as database_module
from service.state.copying import copy
from service.state.database import FILE_NAME, Database
from service.state.errors import StateFailed, StateNotEmpty, StateUnavailable
from service.state.glossaries import GlossaryStore
from service.state.keys import KeyStore, Limits
from service.state.memories import MemoryStore
from service.state.migrations.upgrading import upgrade
from service.state.schema import LATEST, METADATA, USAGE
from service.state.suggestions import SuggestionStore
from service.state.usage import UsageLedger
from service.text.types import LanguagePair, Term
from tests.state.clocks import Clock
from tests.support.postgres import Postgres
from tests.support.waiting import cancelled

DE_EN, EN_DE = LanguagePair("de", "en"), LanguagePair("en", "de")
DOG = Term("Hund", "dog")

# The tables of the Dragoman that had migrations of its own.
EARLIER = """
    CREATE TABLE api_keys (name TEXT PRIMARY KEY, digest BLOB NOT NULL UNIQUE,
        requests_per_minute INTEGER, characters_per_month INTEGER, created TEXT NOT NULL)
        WITHOUT ROWID;
    CREATE TABLE usage (caller TEXT NOT NULL, month TEXT NOT NULL, characters INTEGER NOT NULL,
        documents INTEGER NOT NULL, PRIMARY KEY (caller, month)) WITHOUT ROWID;
    CREATE TABLE glossaries (id TEXT PRIMARY KEY, owner TEXT, name TEXT NOT NULL,
        created TEXT NOT NULL);
    CREATE INDEX glossaries_by_owner ON glossaries (owner, created);
    CREATE TABLE dictionaries (glossary TEXT NOT NULL REFERENCES glossaries ON DELETE CASCADE,
        source TEXT NOT NULL, target TEXT NOT NULL, entry_count INTEGER NOT NULL,
        entries TEXT NOT NULL, PRIMARY KEY (glossary, source, target));
    CREATE TABLE suggestions (id INTEGER PRIMARY KEY, received TEXT NOT NULL, owner TEXT,
        source TEXT NOT NULL, target TEXT NOT NULL, text TEXT NOT NULL, suggestion TEXT NOT NULL);
    PRAGMA user_version = 1;
"""
WITH_MEMORIES = """
    CREATE TABLE memories (id TEXT PRIMARY KEY, owner TEXT, name TEXT NOT NULL,
        source TEXT NOT NULL, targets TEXT NOT NULL, unit_count INTEGER NOT NULL,
        created TEXT NOT NULL);
    CREATE INDEX memories_by_owner ON memories (owner, created);
    CREATE TABLE memory_parts (memory TEXT NOT NULL REFERENCES memories ON DELETE CASCADE,
        number INTEGER NOT NULL, units TEXT NOT NULL, PRIMARY KEY (memory, number));
    CREATE TABLE memory_jobs (id TEXT PRIMARY KEY, owner TEXT, operation TEXT NOT NULL,
        secret TEXT NOT NULL UNIQUE, name TEXT NOT NULL, file_bytes INTEGER NOT NULL, memory TEXT,
        error TEXT, skipped INTEGER NOT NULL, created TEXT NOT NULL);
    PRAGMA user_version = 2;
    INSERT INTO memories VALUES ('0b7a5c1e-0000-4000-8000-000000000002', 'weblate', 'Alt', 'de',
        '["en"]', 1, '2026-01-02T03:04:05+00:00');
    INSERT INTO memory_parts VALUES ('0b7a5c1e-0000-4000-8000-000000000002', 0,
        '[["Hund", {"en": "dog"}]]');
    INSERT INTO memory_jobs VALUES ('0b7a5c1e-0000-4000-8000-000000000003', 'weblate', 'import',
        'geheim', 'Alt', 10, '0b7a5c1e-0000-4000-8000-000000000002', NULL, 0, '2026-01-02');
"""
GLOSSARY = "0b7a5c1e-0000-4000-8000-000000000001"
ROWS = f"""
    INSERT INTO api_keys VALUES ('weblate',
        x'2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b', 60, NULL,
        '2026-01-02T03:04:05.000006+00:00');
    INSERT INTO usage VALUES ('weblate', '2026-11', 70, 2);
    INSERT INTO glossaries VALUES ('{GLOSSARY}', 'weblate', 'Tiere', '2026-01-02T03:04:05+00:00');
    INSERT INTO dictionaries VALUES ('{GLOSSARY}', 'en', 'de', 1, '[["dog", "Hund"]]');
    INSERT INTO dictionaries VALUES ('{GLOSSARY}', 'de', 'en', 1, '[["Hund", "dog"]]');
    INSERT INTO suggestions VALUES (7, '2026-01-02', 'weblate', 'de', 'en', 'Hallo',
        'Hello' || char(0));
"""


def put(value: int, connection: Connection) -> None:
    connection.execute(insert(USAGE).values(("", f"2026-{value}", value, 0)))


def values(connection: Connection) -> list[int]:
    return list(connection.execute(select(USAGE.c.characters)).scalars())


async def test_written_rows_can_be_read_and_survive_reopening(place: Path | SecretStr) -> None:
    async with Database(place, upgrade=True) as database:
        await database.write(lambda connection: put(7, connection))
        assert await database.read(values) == [7]
    async with Database(place) as database:
        assert await database.read(values) == [7]


async def test_directory_is_created_and_has_one_file_afterwards(tmp_path: Path) -> None:
    async with Database.at(tmp_path / "a" / "b"):
        pass
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == [FILE_NAME]


async def test_failed_transaction_writes_nothing(database: Database) -> None:
    def half(connection: Connection) -> None:
        put(7, connection)
        raise RuntimeError("half done")

    with pytest.raises(RuntimeError, match="half done"):
        await database.write(half)
    assert await database.read(values) == []


async def test_cancelled_caller_has_written_nothing(database: Database) -> None:
    begun, ended = threading.Event(), threading.Event()

    def late(connection: Connection) -> None:
        put(7, connection)
        begun.set()
        ended.wait(10)

    writing = asyncio.create_task(database.write(late))
    await asyncio.to_thread(begun.wait, 10)
    await cancelled(writing)
    ended.set()
    await database.write(lambda connection: put(8, connection))
    assert await database.read(values) == [8]


async def test_concurrent_connections_see_each_others_writes(place: Path | SecretStr) -> None:
    databases = [Database(place, upgrade=True) for _ in range(8)]
    await asyncio.gather(*(database.open() for database in databases))
    for database in databases[:3]:
        await database.write(lambda c: c.execute(delete(USAGE)))
        await database.write(lambda connection: put(len(values(connection)), connection))
        assert [await other.read(values) for other in databases] == [[0]] * 8
    await asyncio.gather(*(database.close() for database in databases))


async def test_transactions_with_the_same_lock_follow_one_another(
    place: Path | SecretStr, database: Database
) -> None:
    def count(connection: Connection) -> None:
        put(len(values(connection)), connection)

    async with Database(place) as other:
        await asyncio.gather(*(each.write(count, "count") for each in 10 * (database, other)))
    assert sorted(await database.read(values)) == list(range(20))


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


@pytest.mark.parametrize("later", ["", WITH_MEMORIES])
async def test_state_of_an_earlier_dragoman_is_taken_over_and_copied(
    tmp_path: Path, place: Path | SecretStr, later: str
) -> None:
    (tmp_path / "old").mkdir()
    with closing(sqlite3.connect(tmp_path / "old" / FILE_NAME)) as connection:
        connection.executescript(EARLIER + ROWS + later)
    target = place if isinstance(place, SecretStr) else tmp_path / "new" / FILE_NAME
    async with Database.at(tmp_path / "old") as old, Database(target, upgrade=True) as new:
        copied = await copy(old, new)
        with pytest.raises(StateNotEmpty):
            await copy(old, new)
        for database in (old, new):
            key = await KeyStore(database).find("secret")
            assert key is not None
            assert (key.name, key.limits, key.created.year) == ("weblate", Limits(60), 2026)
            usage = await UsageLedger(database, Clock().now).of("weblate")
            assert (usage.characters, usage.documents) == (70, 2)
            (glossary,) = await GlossaryStore(database).all("weblate")
            assert [each.pair for each in glossary.dictionaries] == [EN_DE, DE_EN]
            terms = await GlossaryStore(database).terms("weblate", glossary.id, DE_EN)
            assert terms == (DOG,)
            await SuggestionStore(database).add("weblate", DE_EN, "Ja", "Yes")
            for memory in await MemoryStore(database).all("weblate") if later else ():
                unit = await MemoryStore(database).part("weblate", memory.id, 0)
                assert (memory.targets, unit) == (("en",), [("Hund", {"en": "dog"})])
    rows = {
        "api_keys": 1,
        "key_secrets": 1,
        "usage": 1,
        "glossaries": 1,
        "dictionaries": 2,
        "suggestions": 1,
    }
    rows |= dict.fromkeys(("memories", "memory_parts", "memory_jobs"), 1) if later else {}
    assert {table: number for table, number in copied.items() if number} == rows
    with closing(sqlite3.connect(tmp_path / "old" / FILE_NAME)) as connection:
        # An earlier Dragoman compares this number with its own, and refuses.
        assert connection.execute("PRAGMA user_version").fetchone() > (2,)


async def test_state_of_a_later_dragoman_is_refused_by_name(place: Path | SecretStr) -> None:
    async with Database(place, upgrade=True) as database:
        later = text("UPDATE alembic_version SET version_num = '99'")
        await database.write(lambda connection: connection.execute(later))
    for upgrades in (False, True):
        with pytest.raises(StateUnavailable, match=r"by a later Dragoman \(schema 99, and this"):
            await Database(place, upgrade=upgrades).open()


async def test_file_of_a_later_dragoman_without_alembic_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StateUnavailable, match=r"by a later Dragoman \(schema 99, and this"):
        await Database(tmp_path / FILE_NAME).open()


async def test_postgresql_is_only_upgraded_on_request(postgres_address: SecretStr) -> None:
    with pytest.raises(StateUnavailable, match="run `dragoman state upgrade`"):
        await Database(postgres_address).open()
    await asyncio.gather(*(_upgraded(postgres_address) for _ in range(3)))
    async with Database(postgres_address) as database:
        assert await database.read(values) == []


async def _upgraded(place: SecretStr) -> None:
    async with Database(place, upgrade=True):
        pass


def described(connection: Connection) -> dict[str, object]:
    """Columns, keys and indexes of each table, without order and names of constraints."""
    found = inspect(connection)
    return {
        table: (
            {
                each["name"]: (str(each["type"]), each["nullable"], each["default"])
                for each in found.get_columns(table)
            },
            found.get_pk_constraint(table)["constrained_columns"],
            [(each["column_names"], each["unique"]) for each in found.get_indexes(table)],
            [each["column_names"] for each in found.get_unique_constraints(table)],
            [
                (each["constrained_columns"], each["referred_table"], each["options"])
                for each in found.get_foreign_keys(table)
            ],
        )
        for table in found.get_table_names()
    }


async def test_created_tables_are_those_of_all_migrations(place: Path | SecretStr) -> None:
    def migrated(connection: Connection) -> dict[str, object]:
        METADATA.drop_all(connection)
        connection.execute(text("DROP TABLE alembic_version"))
        upgrade(connection, 0)
        version = text("SELECT version_num FROM alembic_version")
        assert int(connection.execute(version).scalar_one()) == LATEST
        return described(connection)

    async with Database(place, upgrade=True) as database:
        created = await database.read(described)
        assert await database.write(migrated) == created


async def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.executescript(EARLIER + ROWS + "CREATE TABLE revisions (a);")
        before = list(connection.iterdump())
        with pytest.raises(StateUnavailable, match="already exists"):
            await Database(tmp_path / FILE_NAME).open()
        assert list(connection.iterdump()) == before


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("CREATE TABLE revisions (a)", "has another program's table revisions; set DRAGOMAN"),
        ("CREATE TABLE alembic_version AS SELECT 'f0' AS version_num", "at its revision f0; set"),
    ],
)
async def test_database_of_another_program_is_refused(
    tmp_path: Path, table: str, problem: str
) -> None:
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.execute(table)
    with pytest.raises(StateUnavailable, match=problem):
        await Database(tmp_path / FILE_NAME).open()


async def test_unusable_files_and_paths_are_errors_with_a_remedy(tmp_path: Path) -> None:
    for name in ("file", "text"):
        (tmp_path / name).write_text("no database" * 100)
    (tmp_path / FILE_NAME).mkdir()
    remedy = "set DRAGOMAN_STATE to a directory"
    for place, problem in (
        (tmp_path / "text", "file is not a database; put back a copy of it, or move it away"),
        (tmp_path / "file" / FILE_NAME, remedy),
        (tmp_path / FILE_NAME, remedy),
        (SecretStr("postgresql://[::1"), "write postgresql://USER"),
    ):
        with pytest.raises(StateUnavailable, match=problem):
            await Database(place).open()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to every file")
async def test_read_only_file_error_has_remedy(tmp_path: Path) -> None:
    async with Database(tmp_path / FILE_NAME):
        pass
    (tmp_path / FILE_NAME).chmod(0o400)
    with pytest.raises(StateUnavailable, match="set DRAGOMAN_STATE to a directory"):
        await Database(tmp_path / FILE_NAME).open()


async def test_failure_is_logged_and_hides_place_and_values_from_callers(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    statement = text("SELECT * FROM absent WHERE name = :name")
    with caplog.at_level(logging.ERROR), pytest.raises(StateFailed) as failure:
        await database.read(lambda connection: connection.execute(statement, {"name": "secret"}))
    assert await database.read(values) == []
    assert "absent" in caplog.text
    assert "secret" not in caplog.text
    assert "absent" not in str(failure.value)
    assert database.name not in str(failure.value)


@pytest.mark.parametrize("options", ["", "&password=hidden&sslpassword=hidden"])
async def test_password_is_in_no_message(options: str) -> None:
    address = SecretStr(f"postgresql://dragoman:hidden@/absent?host=/absent{options}")
    with pytest.raises(StateUnavailable) as failure:
        await Database(address).open()
    assert "hidden" not in str(failure.value)


async def test_options_of_the_address_are_heeded(postgres_address: SecretStr) -> None:
    options = "application_name=another&options=-csearch_path%3Dpg_temp"
    address = SecretStr(f"{postgres_address.get_secret_value()}&{options}")

    def present(connection: Connection) -> tuple[str, ...]:
        names = ("application_name", "search_path", "statement_timeout")
        return tuple(connection.execute(text(f"SHOW {name}")).scalar_one() for name in names)

    async with Database(address, upgrade=True) as database:
        assert await database.read(present) == ("another", "pg_temp", "30s")


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
async def test_database_that_cannot_store_all_texts_is_refused(
    postgres: Postgres, encoding: str
) -> None:
    address = postgres.create("--encoding", encoding, "--locale", "C", "--template", "template0")
    with pytest.raises(StateUnavailable, match=f"encoding {encoding}.*ENCODING 'UTF8'"):
        await Database(address, upgrade=True).open()


async def test_database_that_was_restarted_is_used_again(
    postgres: Postgres, postgres_address: SecretStr
) -> None:
    async with Database(postgres_address, upgrade=True) as database:
        await database.write(lambda connection: put(7, connection))
        postgres.stop()
        with pytest.raises(StateFailed):
            await database.read(values)
        postgres.start()
        assert await database.read(values) == [7]


async def test_server_that_falls_silent_in_a_transaction_is_given_up(
    postgres_address: SecretStr, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.state.bounded_connection._SILENT_SECONDS", 0.5)
    silent: list[int] = []

    def silence(connection: Connection) -> None:
        silent.append(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())
        os.kill(silent[0], signal.SIGSTOP)
        put(7, connection)

    async with asyncio.timeout(30), Database(postgres_address, upgrade=True) as database:
        try:
            with pytest.raises(StateFailed):
                await database.write(silence)
            assert await database.read(values) == []
        finally:
            os.kill(silent[0], signal.SIGCONT)


async def test_process_that_stops_in_a_transaction_keeps_its_lock_no_longer_than_a_statement(
    postgres_address: SecretStr, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "_STATEMENT_SECONDS", 1)
    stopped, resumed = threading.Event(), threading.Event()

    def stop(connection: Connection) -> None:
        stopped.set()
        resumed.wait()
        put(1, connection)

    async with (
        Database(postgres_address, upgrade=True) as one,
        Database(postgres_address) as other,
        asyncio.timeout(30),
    ):
        stuck = asyncio.create_task(one.write(stop, "documents"))
        await asyncio.to_thread(stopped.wait)
        try:
            while await other.read(values) != [7]:
                with suppress(StateFailed):
                    await other.write(lambda connection: put(7, connection), "documents")
        finally:
            resumed.set()
        with pytest.raises(StateFailed):
            await stuck
