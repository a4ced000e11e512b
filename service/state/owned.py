"""Identifiers of stores with several owners, and an owner's rows."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from sqlalchemy import ColumnElement, Connection, Table, func, select

from service.state.errors import StateError


def canonical(identifier: str, missing: Callable[[str], StateError]) -> str:
    """The usual spelling of a UUID; raises the error that ``missing`` makes if it is none."""
    try:
        return str(uuid.UUID(identifier))
    except ValueError as error:
        raise missing(identifier) from error


def owned_by(table: Table, owner: str | None) -> ColumnElement[bool]:
    """Whether a row of ``table`` belongs to ``owner``."""
    return table.c.owner.is_not_distinct_from(owner)


def count(connection: Connection, table: Table, owner: str | None) -> int:
    """The number of rows of an owner."""
    statement = select(func.count()).select_from(table).where(owned_by(table, owner))
    return connection.execute(statement).scalar_one()
