"""Identifiers of stores with several owners, and the number of an owner's rows."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable

from service.state.errors import StateError


def canonical(identifier: str, missing: Callable[[str], StateError]) -> str:
    """The usual spelling of a UUID; raises the error that ``missing`` makes if it is none."""
    try:
        return str(uuid.UUID(identifier))
    except ValueError as error:
        raise missing(identifier) from error


def count(connection: sqlite3.Connection, table: str, owner: str | None) -> int:
    """The rows of an owner in a table; ``table`` is a name in the code."""
    statement = f"SELECT COUNT(*) FROM {table} WHERE owner IS ?"
    (number,) = connection.execute(statement, (owner,)).fetchone()
    assert isinstance(number, int)
    return number
