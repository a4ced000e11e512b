"""Store of translation memories and of the jobs that import and export them, by owner.

The units of a memory are kept in parts, each a list in JSON, and never change. Owners see only
their own memories. Callers without a key are one owner, ``None``. The secret of a job gives access
to its file without a key.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Table, and_, delete, insert, select, update

from service.state.database import Database
from service.state.errors import InvalidMemory, MemoryNotFound, TooManyMemories
from service.state.owned import canonical, count, owned_by
from service.state.schema import MEMORIES, MEMORY_JOBS, MEMORY_PARTS
from service.state.tmx import MemoryLimits, MemoryUnit, ReadMemory

UNITS_IN_A_PART = 1_000
_JOBS_KEPT = timedelta(days=1)

_LOCK = "memories"

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
    memory: str | None
    """Id of the memory that is exported, or that an import has made."""
    error: str | None
    skipped: int
    created: datetime

    @property
    def ends(self) -> datetime:
        """Time at which the job and its secret are forgotten."""
        return self.created + _JOBS_KEPT


class MemoryStore:
    def __init__(self, database: Database, limits: MemoryLimits | None = None) -> None:
        self._database = database
        self.limits = limits or MemoryLimits()

    async def all(self, owner: str | None) -> tuple[StoredMemory, ...]:
        """The memories of an owner, oldest first."""
        columns = MEMORIES.c
        statement = select(MEMORIES).where(owned_by(MEMORIES, owner))
        statement = statement.order_by(columns.created, columns.id)
        return await self._database.read(
            lambda connection: tuple(map(_memory, connection.execute(statement)))
        )

    async def get(self, owner: str | None, identifier: str) -> StoredMemory:
        """One memory; raises ``MemoryNotFound``, as do all methods below."""
        known = canonical(identifier, MemoryNotFound)
        return await self._database.read(lambda connection: _owned(connection, owner, known))

    async def delete(self, owner: str | None, identifier: str) -> None:
        known = canonical(identifier, MemoryNotFound)

        def remove(connection: Connection) -> None:
            _owned(connection, owner, known)
            connection.execute(delete(MEMORIES).where(MEMORIES.c.id == known))

        await self._database.write(remove, _LOCK)

    async def part(self, owner: str | None, identifier: str, number: int) -> list[MemoryUnit]:
        """The units of one part, ``UNITS_IN_A_PART`` of them or, in the last one, fewer."""
        known = canonical(identifier, MemoryNotFound)

        columns = MEMORY_PARTS.c
        statement = select(columns.units).where(columns.memory == known, columns.number == number)

        def read(connection: Connection) -> list[MemoryUnit]:
            _owned(connection, owner, known)
            units = connection.execute(statement).scalar()
            return [(source, targets) for source, targets in json.loads(units or "[]")]

        return await self._database.read(read)

    async def open_job(
        self,
        owner: str | None,
        operation: Operation,
        name: str,
        *,
        memory: str | None = None,
    ) -> MemoryJob:
        """A new job; raises ``InvalidMemory`` for its name, or ``TooManyMemories``."""
        if "\0" in name:
            # PostgreSQL stores no text with this character.
            raise InvalidMemory(
                "the name of the translation memory has the character U+0000; leave it out"
            )
        now = datetime.now(UTC)
        job = MemoryJob(
            str(uuid.uuid4()),
            owner,
            operation,
            secrets.token_urlsafe(32),
            name,
            memory,
            None,
            0,
            now,
        )

        def write(connection: Connection) -> None:
            old = (now - _JOBS_KEPT).isoformat()
            connection.execute(delete(MEMORY_JOBS).where(MEMORY_JOBS.c.created < old))
            _refuse_if_full(connection, MEMORY_JOBS, owner, self.limits.jobs)
            if operation == "import":
                _refuse_if_full(connection, MEMORIES, owner, self.limits.memories)
            # The column ``file_bytes`` is unused, and has no default.
            row = asdict(job) | {"created": now.isoformat(), "file_bytes": 0}
            connection.execute(insert(MEMORY_JOBS).values(row))

        await self._database.write(write, _LOCK)
        return job

    async def job(self, owner: str | None, identifier: str) -> MemoryJob:
        known = canonical(identifier, MemoryNotFound)
        which = and_(MEMORY_JOBS.c.id == known, owned_by(MEMORY_JOBS, owner))
        return await self._found_job(which, known)

    async def job_with(self, secret: str, operation: Operation) -> MemoryJob:
        """The job of this secret, which is not a part of errors."""
        if "\0" in secret:
            # PostgreSQL refuses texts with this character.
            raise MemoryNotFound("job")
        columns = MEMORY_JOBS.c
        which = and_(columns.secret == secret, columns.operation == operation)
        return await self._found_job(which, "job")

    async def finish_import(self, job: MemoryJob, read: ReadMemory) -> bool:
        """Store what an import has read; the job is done. Raises ``TooManyMemories``.

        Stores nothing and returns ``False`` if the job had ended before.
        """
        identifier, created = str(uuid.uuid4()), datetime.now(UTC).isoformat()
        # A memory may have 100,000 units.
        parts, targets = await asyncio.to_thread(
            lambda: (_parts(identifier, read.units), json.dumps(read.targets))
        )
        row = {
            "id": identifier,
            "owner": job.owner,
            "name": job.name,
            "source": read.source,
            "targets": targets,
            "unit_count": len(read.units),
            "created": created,
        }

        ended = update(MEMORY_JOBS).where(_is_open(job))
        ended = ended.values(memory=identifier, skipped=read.skipped)

        def write(connection: Connection) -> bool:
            if not connection.execute(ended).rowcount:
                return False
            _refuse_if_full(connection, MEMORIES, job.owner, self.limits.memories)
            connection.execute(insert(MEMORIES).values(row))
            if parts:
                connection.execute(insert(MEMORY_PARTS), parts)
            return True

        return await self._database.write(write, _LOCK)

    async def fail(self, job: MemoryJob, error: str) -> None:
        """End the job with an error, unless it has ended."""
        statement = update(MEMORY_JOBS).where(_is_open(job)).values(error=error)
        await self._database.write(lambda connection: connection.execute(statement))

    async def _found_job(self, which: ColumnElement[bool], shown: str) -> MemoryJob:
        oldest = (datetime.now(UTC) - _JOBS_KEPT).isoformat()
        columns = [MEMORY_JOBS.c[each.name] for each in fields(MemoryJob)]
        statement = select(*columns).where(which, MEMORY_JOBS.c.created >= oldest)

        def read(connection: Connection) -> MemoryJob:
            row = connection.execute(statement).mappings().first()
            if row is None:
                raise MemoryNotFound(shown)
            return MemoryJob(**{**row, "created": datetime.fromisoformat(row["created"])})

        return await self._database.read(read)


def _is_open(job: MemoryJob) -> ColumnElement[bool]:
    columns = MEMORY_JOBS.c
    return and_(columns.id == job.id, columns.memory.is_(None), columns.error.is_(None))


def _refuse_if_full(connection: Connection, table: Table, owner: str | None, limit: int) -> None:
    if count(connection, table, owner) >= limit:
        raise TooManyMemories(limit)


def _memory(row: Any) -> StoredMemory:
    languages, created = tuple(json.loads(row.targets)), datetime.fromisoformat(row.created)
    return StoredMemory(row.id, row.name, row.source, languages, row.unit_count, created)


def _owned(connection: Connection, owner: str | None, identifier: str) -> StoredMemory:
    which = and_(MEMORIES.c.id == identifier, owned_by(MEMORIES, owner))
    row = connection.execute(select(MEMORIES).where(which)).first()
    if row is None:
        raise MemoryNotFound(identifier)
    return _memory(row)


def _parts(identifier: str, units: Sequence[MemoryUnit]) -> list[dict[str, Any]]:
    """Rows of the parts of a memory."""
    starts = range(0, len(units), UNITS_IN_A_PART)
    return [
        {
            "memory": identifier,
            "number": number,
            "units": json.dumps(units[start : start + UNITS_IN_A_PART], ensure_ascii=False),
        }
        for number, start in enumerate(starts)
    ]
