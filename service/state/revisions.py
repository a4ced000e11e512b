"""Counters of changes to the stored state, by which processes notice the changes of others."""

from __future__ import annotations

from sqlalchemy import Connection, select

from service.state.schema import REVISIONS, upsert


def bump(connection: Connection, name: str) -> int:
    """Count a change in its own transaction, and return its number."""
    statement = (
        upsert(connection, REVISIONS)
        .on_conflict_do_update(
            index_elements=[REVISIONS.c.name], set_={"number": REVISIONS.c.number + 1}
        )
        .returning(REVISIONS.c.number)
    )
    return int(connection.execute(statement, {"name": name, "number": 1}).scalar_one())


def revision_of(connection: Connection, name: str) -> int:
    """The number of the last change; 0 before the first one."""
    statement = select(REVISIONS.c.number).where(REVISIONS.c.name == name)
    return int(connection.execute(statement).scalar() or 0)
