"""Store of translation memories and of the jobs that import and export them, by owner.

The units of a memory are kept in parts, each a list in JSON, and never change. Owners see only
their own memories. Callers without a key are one owner, ``None``. The secret of a job gives access
to its file without a key.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sqlite3
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from service.state.database import Database
from service.state.errors import MemoryNotFound, TooManyMemories
from service.state.owned import canonical, count
from service.state.tmx import MemoryLimits, MemoryUnit, ReadMemory

UNITS_IN_A_PART = 1_000
_JOBS_KEPT = timedelta(days=1)

Operation = Literal["import", "export"]


@dataclass(frozen=True, slots=True)
class StoredMemory:
    id: str
    """A UUID."""
    name: str
    source: str
    targets: tuple[str, ...]
    unit_count: int
    created: datetime


@dataclass(frozen=True, slots=True)
class MemoryJob:
    id: str
    """A UUID."""
    owner: str | None
    operation: Operation
    secret: str
    """Gives access to the file of the job without a key."""
    name: str
    """Name of the memory that an import makes."""
    file_bytes: int
    memory: str | None
    """Id of the memory that is exported, or that an import has made."""
    error: str | None
    skipped: int
    created: datetime

    @property
    def ends(self) -> datetime:
        """Time at which the job and its secret are forgotten."""
        return self.created + _JOBS_KEPT


_JOB = "id, owner, operation, secret, name, file_bytes, memory, error, skipped, created"


class MemoryStore:
    def __init__(self, database: Database, limits: MemoryLimits | None = None) -> None:
        self._database = database
        self.limits = limits or MemoryLimits()

    async def all(self, owner: str | None) -> tuple[StoredMemory, ...]:
        """The memories of an owner, oldest first."""
        return await self._database.read(
            lambda connection: tuple(
                _memory(row)
                for row in connection.execute(
                    f"SELECT {_MEMORY} FROM memories WHERE owner IS ? ORDER BY created, id",
                    (owner,),
                )
            )
        )

    async def get(self, owner: str | None, identifier: str) -> StoredMemory:
        """One memory; raises ``MemoryNotFound``, as do all methods below."""
        known = canonical(identifier, MemoryNotFound)
        return await self._database.read(lambda connection: _owned(connection, owner, known))

    async def delete(self, owner: str | None, identifier: str) -> None:
        known = canonical(identifier, MemoryNotFound)

        def delete(connection: sqlite3.Connection) -> None:
            _owned(connection, owner, known)
            connection.execute("DELETE FROM memories WHERE id = ?", (known,))

        await self._database.write(delete)

    async def part(self, owner: str | None, identifier: str, number: int) -> list[MemoryUnit]:
        """The units of one part, ``UNITS_IN_A_PART`` of them or, in the last one, fewer."""
        known = canonical(identifier, MemoryNotFound)

        def select(connection: sqlite3.Connection) -> list[MemoryUnit]:
            _owned(connection, owner, known)
            row = connection.execute(
                "SELECT units FROM memory_parts WHERE memory = ? AND number = ?", (known, number)
            ).fetchone()
            return [(source, targets) for source, targets in json.loads(row[0] if row else "[]")]

        return await self._database.read(select)

    async def open_job(
        self,
        owner: str | None,
        operation: Operation,
        name: str,
        *,
        file_bytes: int = 0,
        memory: str | None = None,
    ) -> MemoryJob:
        """A new job; raises ``TooManyMemories``."""
        now = datetime.now(UTC)
        job = MemoryJob(
            str(uuid.uuid4()),
            owner,
            operation,
            secrets.token_urlsafe(32),
            name,
            file_bytes,
            memory,
            None,
            0,
            now,
        )

        def insert(connection: sqlite3.Connection) -> None:
            connection.execute(
                "DELETE FROM memory_jobs WHERE created < ?", ((now - _JOBS_KEPT).isoformat(),)
            )
            _require_room(connection, "memory_jobs", owner, self.limits.jobs)
            if operation == "import":
                _require_room(connection, "memories", owner, self.limits.memories)
            connection.execute(
                f"INSERT INTO memory_jobs ({_JOB}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    job.id,
                    owner,
                    operation,
                    job.secret,
                    name,
                    file_bytes,
                    memory,
                    None,
                    0,
                    now.isoformat(),
                ),
            )

        await self._database.write(insert)
        return job

    async def job(self, owner: str | None, identifier: str) -> MemoryJob:
        known = canonical(identifier, MemoryNotFound)
        return await self._found_job("id = ? AND owner IS ?", (known, owner), known)

    async def job_with(self, secret: str, operation: Operation) -> MemoryJob:
        """The job of this secret, which is not a part of errors."""
        return await self._found_job("secret = ? AND operation = ?", (secret, operation), "job")

    async def finish_import(self, job: MemoryJob, read: ReadMemory) -> None:
        """Store what an import has read; the job is done. Raises ``TooManyMemories``."""
        identifier, created = str(uuid.uuid4()), datetime.now(UTC).isoformat()
        # A memory may have 100,000 units.
        parts, targets = await asyncio.to_thread(
            lambda: (_parts(identifier, read.units), json.dumps(read.targets))
        )
        row = (
            identifier,
            job.owner,
            job.name,
            read.source,
            targets,
            len(read.units),
            created,
        )

        def insert(connection: sqlite3.Connection) -> None:
            _require_room(connection, "memories", job.owner, self.limits.memories)
            connection.execute(
                "INSERT INTO memories (id, owner, name, source, targets, unit_count, created) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                row,
            )
            connection.executemany(
                "INSERT INTO memory_parts (memory, number, units) VALUES (?, ?, ?)", parts
            )
            connection.execute(
                "UPDATE memory_jobs SET memory = ?, skipped = ? WHERE id = ?",
                (identifier, read.skipped, job.id),
            )

        await self._database.write(insert)

    async def fail(self, job: MemoryJob, error: str) -> None:
        await self._database.write(
            lambda connection: connection.execute(
                "UPDATE memory_jobs SET error = ? WHERE id = ?", (error, job.id)
            )
        )

    async def _found_job(self, where: str, values: tuple[str | None, ...], shown: str) -> MemoryJob:
        oldest = (datetime.now(UTC) - _JOBS_KEPT).isoformat()

        def select(connection: sqlite3.Connection) -> MemoryJob:
            row = connection.execute(
                f"SELECT {_JOB} FROM memory_jobs WHERE {where} AND created >= ?", (*values, oldest)
            ).fetchone()
            if row is None:
                raise MemoryNotFound(shown)
            fields = dict(zip(_JOB.split(", "), row, strict=True))
            return MemoryJob(**fields | {"created": datetime.fromisoformat(fields["created"])})

        return await self._database.read(select)


_MEMORY = "id, name, source, targets, unit_count, created"


def _memory(row: tuple[str, str, str, str, int, str]) -> StoredMemory:
    identifier, name, source, targets, count, created = row
    languages = tuple(json.loads(targets))
    return StoredMemory(identifier, name, source, languages, count, datetime.fromisoformat(created))


def _owned(connection: sqlite3.Connection, owner: str | None, identifier: str) -> StoredMemory:
    row = connection.execute(
        f"SELECT {_MEMORY} FROM memories WHERE id = ? AND owner IS ?", (identifier, owner)
    ).fetchone()
    if row is None:
        raise MemoryNotFound(identifier)
    return _memory(row)


def _require_room(
    connection: sqlite3.Connection, table: str, owner: str | None, limit: int
) -> None:
    if count(connection, table, owner) >= limit:
        raise TooManyMemories(limit)


def _parts(identifier: str, units: Sequence[MemoryUnit]) -> list[tuple[str, int, str]]:
    """Rows of the parts of a memory."""
    starts = range(0, len(units), UNITS_IN_A_PART)
    return [
        (identifier, n, json.dumps(units[start : start + UNITS_IN_A_PART], ensure_ascii=False))
        for n, start in enumerate(starts)
    ]
