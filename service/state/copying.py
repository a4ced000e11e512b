"""Copies all rows of one state into an empty one, such as from SQLite to PostgreSQL."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, RowMapping, Table, func, insert, select, text

from service.state.database import Database
from service.state.errors import StateNotEmpty
from service.state.schema import METADATA, SETTLEMENTS

_ROWS = 20
"""Rows in memory at a time; a document has megabytes."""


async def copy(source: Database, target: Database) -> dict[str, int]:
    """Return the number of rows copied, by table; raises ``StateNotEmpty`` or ``StateFailed``.

    The source is read, and the target written, in one transaction each.
    """

    def run(old: Connection) -> dict[str, int]:
        if old.dialect.name == "postgresql":
            # Otherwise each table is read as it is at another time.
            old.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
        return target.write_here(lambda new: _copy_tables(old, new, target.name), "schema")

    return await source.read(run)


def _copy_tables(old: Connection, new: Connection, place: str) -> dict[str, int]:
    tables = [table for table in METADATA.sorted_tables if table is not SETTLEMENTS]
    for table in tables:
        if new.execute(select(func.count()).select_from(table)).scalar_one():
            raise StateNotEmpty(place, table.name)
    copied = {}
    for table in tables:
        copied[table.name] = 0
        rows = old.execution_options(yield_per=_ROWS).execute(select(table)).mappings()
        for some in rows.partitions():
            new.execute(insert(table), [_storable(row) for row in some])
            copied[table.name] += len(some)
        _advance_ids(new, table)
    return copied


def _storable(row: RowMapping) -> dict[str, Any]:
    """The row with U+FFFD in place of U+0000, which PostgreSQL does not store in texts."""
    return {
        name: value.replace("\0", "\ufffd") if isinstance(value, str) else value
        for name, value in row.items()
    }


def _advance_ids(connection: Connection, table: Table) -> None:
    """Let PostgreSQL number further rows after the copied ones."""
    if connection.dialect.name == "postgresql" and "id" in table.c:
        sequence = text("SELECT pg_get_serial_sequence(:table, 'id')")
        name = connection.execute(sequence, {"table": table.name}).scalar()
        if name is not None:
            highest = select(func.coalesce(func.max(table.c.id), 0) + 1).scalar_subquery()
            connection.execute(select(func.setval(name, highest, False)))
