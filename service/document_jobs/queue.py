"""Queue of document jobs in the stored state, which replicas share.

A worker, one of each replica, claims queued jobs and holds a lease on them. A job whose lease has
ended is queued again, or fails after several attempts. Only the worker of the present attempt can
write a result. A linked job belongs to the replica whose client waits for it until it is done, and
ends with that.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, insert, or_, select, update

from service.document_jobs.types import DocumentJob, DocumentLimits, DocumentNotFound, DocumentsFull
from service.state.database import Database
from service.state.schema import CONTENTS, DOCUMENTS
from service.state.usage import Amount, Booking, Used, add_usage, day_of

LEASE_SECONDS = 30.0
"""How long a job stays with a replica that does not renew its lease, such as a killed one."""
ATTEMPTS = 3
"""How often a document is begun by replicas that end meanwhile, or cannot translate it."""
_PAUSE_SECONDS = 15.0
"""How long a worker leaves a document that it could not translate to other workers."""
_LOCK = "documents"
_GAVE_UP = "the document could not be translated, because the service ended several times meanwhile"

_COLUMNS = DOCUMENTS.c
_UNFINISHED = _COLUMNS.state.in_(("queued", "translating"))
_SHOWN = (
    _COLUMNS.id,
    _COLUMNS.filename,
    _COLUMNS.content_type,
    _COLUMNS.characters,
    _COLUMNS.size,
    _COLUMNS.state,
    _COLUMNS.error,
    _COLUMNS.progress,
    _COLUMNS.changed,
)


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A document that was read, for ``DocumentQueue.put``."""

    id: str
    key: str
    caller: str | None
    filename: str
    media_type: str
    size: int
    scope: str
    """The caller that alone may ask for the job by its key, where API keys are required."""
    linked: bool
    """Whether a client waits for the job, and fetches the translation by a link."""
    instructions: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Claim:
    """One attempt of a worker at a job."""

    id: str
    attempt: int
    media_type: str


class DocumentQueue:
    def __init__(
        self, database: Database, limits: DocumentLimits, clock: Callable[[], float] = time.time
    ) -> None:
        """``clock`` has to be that of the other replicas, to a few seconds."""
        self._database = database
        self._limits = limits
        self._clock = clock
        self._worker = secrets.token_hex(8)
        self._left: dict[str, float] = {}
        """Jobs that this worker has put back, and when it may claim them again."""

    async def check_room(
        self, caller: str | None, size: int, unopened: Sequence[tuple[str | None, int]]
    ) -> None:
        """Raises ``DocumentsFull`` if a document would not fit; ``unopened`` are to come."""
        await self._database.read(lambda c: self._in_the_way(c, caller, size, unopened))

    async def put(
        self, new: NewDocument, booking: Booking, unopened: Sequence[tuple[str | None, int]]
    ) -> DocumentJob:
        """Queue a document, write its booking and evict old translations; raises
        ``DocumentsFull``."""
        (caller, month), now = booking.account, self._clock()
        row = {
            "id": new.id,
            "key_digest": _digest(new.key),
            "caller": new.caller,
            "account": caller,
            "month": month,
            "filename": new.filename,
            "media_type": new.media_type,
            "characters": booking.amount.characters,
            "size": new.size,
            "state": "queued",
            "accepted": now,
            "changed": now,
            "scope": new.scope,
            "linked": new.linked,
            "worker": self._worker if new.linked else None,
            "lease_until": now + LEASE_SECONDS,
        }

        def write(connection: Connection) -> DocumentJob:
            evicted = self._in_the_way(connection, new.caller, new.size, unopened)
            connection.execute(delete(DOCUMENTS).where(_COLUMNS.id.in_(evicted)))
            connection.execute(insert(DOCUMENTS).values(row))
            connection.execute(insert(CONTENTS).values((new.id, new.instructions, new.content)))
            booking.write(connection, _day(now))
            return _job(connection, _COLUMNS.id == new.id)

        return await self._database.write(write, _LOCK)

    async def find(self, identifier: str, key: str, scope: str) -> DocumentJob:
        """The job of this id, key and scope, unless it is linked; raises ``DocumentNotFound``."""

        which = and_(_has_id(identifier), _COLUMNS.scope == scope, ~_COLUMNS.linked)

        def read(connection: Connection) -> DocumentJob:
            stored = connection.execute(select(_COLUMNS.key_digest).where(which)).scalar()
            if stored is None or not hmac.compare_digest(stored, _digest(key)):
                raise DocumentNotFound
            return _job(connection, which)

        return await self._database.read(read)

    async def find_linked(self, identifier: str) -> DocumentJob:
        """The linked job of this id; raises ``DocumentNotFound``."""
        which = and_(_has_id(identifier), _COLUMNS.linked)
        return await self._database.read(lambda connection: _job(connection, which))

    async def content(self, identifier: str) -> tuple[str, bytes]:
        """Options and document of a job, or its translation; raises ``DocumentNotFound``."""
        statement = select(CONTENTS.c.instructions, CONTENTS.c.content)
        statement = statement.where(CONTENTS.c.document == identifier)
        row = await self._database.read(lambda c: c.execute(statement).first())
        if row is None:
            raise DocumentNotFound
        return row.instructions, row.content

    async def claim(self, number: int, *, linked_only: bool = False) -> list[Claim]:
        """Claim at most ``number`` queued jobs for this worker.

        The next one is of the caller with the fewest jobs in translation, the oldest first. One
        caller gets all but one of the places of a worker.
        """
        self._left = {id: until for id, until in self._left.items() if until > self._clock()}
        mine = and_(_COLUMNS.linked, _COLUMNS.worker == self._worker)
        wanted = mine if linked_only else or_(~_COLUMNS.linked, mine)
        queued = and_(_COLUMNS.state == "queued", wanted, _COLUMNS.id.not_in(list(self._left)))

        def read(connection: Connection) -> bool:
            return (
                connection.execute(select(_COLUMNS.id).where(queued).limit(1)).first() is not None
            )

        if number <= 0 or not await self._database.read(read):
            return []

        def write(connection: Connection) -> list[Claim]:
            present = connection.execute(
                select(_COLUMNS.caller, _COLUMNS.worker).where(_COLUMNS.state == "translating")
            ).all()
            running = Counter(row.caller for row in present)
            here = Counter(row.caller for row in present if row.worker == self._worker)
            waiting = list(
                connection.execute(
                    select(_COLUMNS.id, _COLUMNS.caller, _COLUMNS.attempts, _COLUMNS.media_type)
                    .where(queued)
                    .order_by(_COLUMNS.accepted, _COLUMNS.id)
                )
            )
            claims = []
            for _ in range(number):
                allowed = [row for row in waiting if self._may_run(row.caller, here)]
                if not allowed:
                    break
                chosen = min(allowed, key=lambda row: running[row.caller])
                waiting.remove(chosen)
                running[chosen.caller] += 1
                here[chosen.caller] += 1
                claims.append(self._claim(connection, chosen))
            return claims

        return await self._database.write(write, _LOCK)

    async def renew(self, jobs: Collection[str], progress: Mapping[Claim, float]) -> None:
        """Extend this worker's leases of ``jobs``, and write the progress of some."""

        def write(connection: Connection) -> None:
            its = and_(_COLUMNS.worker == self._worker, _UNFINISHED, _COLUMNS.id.in_(jobs))
            until = self._clock() + LEASE_SECONDS
            connection.execute(update(DOCUMENTS).where(its).values(lease_until=until))
            for claim, done in progress.items():
                connection.execute(update(DOCUMENTS).where(self._is(claim)).values(progress=done))

        await self._database.write(write, _LOCK)

    async def finish(self, claim: Claim, content_type: str, translation: bytes) -> DocumentJob:
        """Replace the document by its translation; raises ``DocumentNotFound`` if the job was
        removed or another attempt has begun."""

        def write(connection: Connection) -> DocumentJob:
            done = connection.execute(
                update(DOCUMENTS)
                .where(self._is(claim))
                .values(
                    state="done",
                    progress=1.0,
                    content_type=content_type,
                    size=len(translation),
                    changed=self._clock(),
                )
            )
            if not done.rowcount:
                raise DocumentNotFound
            connection.execute(
                update(CONTENTS)
                .where(CONTENTS.c.document == claim.id)
                .values(content=translation, instructions="")
            )
            return _job(connection, _COLUMNS.id == claim.id)

        return await self._database.write(write, _LOCK)

    async def fail(self, claim: Claim, message: str) -> None:
        """End a job with an error and take back its charge; nothing if it is not this attempt's."""
        await self._database.write(lambda c: self._fail(c, self._is(claim), message), _LOCK)

    async def remove(self, identifier: str) -> None:
        """Remove a job and its contents; one that is not done is not charged."""
        await self._database.write(lambda c: self._remove(c, _COLUMNS.id == identifier), _LOCK)

    async def put_back(self, claim: Claim) -> None:
        """Queue a job for another attempt, soon by other workers and later by this one; nothing if
        it is not this attempt's."""
        self._left[claim.id] = self._clock() + _PAUSE_SECONDS
        again = update(DOCUMENTS).where(self._is(claim)).values(**_QUEUED)
        await self._database.write(lambda connection: connection.execute(again), _LOCK)

    async def hand_back(self) -> None:
        """Queue this worker's jobs again, for other replicas or its successor; remove those that
        a client waits for."""
        its = and_(_COLUMNS.worker == self._worker, _UNFINISHED)

        def write(connection: Connection) -> None:
            self._remove(connection, and_(its, _COLUMNS.linked))
            attempts = _COLUMNS.attempts - 1
            connection.execute(update(DOCUMENTS).where(its).values(**_QUEUED, attempts=attempts))

        await self._database.write(write, _LOCK)

    async def expire(self, awaited: Collection[str]) -> None:
        """Queue jobs again whose lease has ended, and remove old ones.

        ``awaited`` are the jobs that clients of this replica wait for.
        """
        now = self._clock()
        late = and_(
            _COLUMNS.lease_until < now, or_(_COLUMNS.state == "translating", _COLUMNS.linked)
        )
        late = and_(late, _UNFINISHED)
        gone = and_(_COLUMNS.linked, _COLUMNS.worker == self._worker, _UNFINISHED)
        # A client may begin to wait for a job after ``awaited`` was read.
        gone = and_(gone, _COLUMNS.id.not_in(awaited), _COLUMNS.accepted < now)
        old = and_(~_UNFINISHED, _COLUMNS.changed <= now - self._limits.kept_seconds)

        def read(connection: Connection) -> bool:
            statement = select(_COLUMNS.id).where(or_(late, gone, old)).limit(1)
            return connection.execute(statement).first() is not None

        def write(connection: Connection) -> None:
            self._remove(connection, or_(old, gone, and_(late, _COLUMNS.linked)))
            self._fail(connection, and_(late, _COLUMNS.attempts >= ATTEMPTS), _GAVE_UP)
            connection.execute(update(DOCUMENTS).where(late).values(**_QUEUED))

        if await self._database.read(read):
            await self._database.write(write, _LOCK)

    def _claim(self, connection: Connection, row: Any) -> Claim:
        now, attempt = self._clock(), row.attempts + 1
        connection.execute(
            update(DOCUMENTS)
            .where(_COLUMNS.id == row.id)
            .values(
                state="translating",
                worker=self._worker,
                attempts=attempt,
                changed=now,
                lease_until=now + LEASE_SECONDS,
            )
        )
        return Claim(row.id, attempt, row.media_type)

    def _may_run(self, caller: str | None, here: Mapping[str | None, int]) -> bool:
        share = max(1, self._limits.running - 1)
        return caller is None or here.get(caller, 0) < share

    def _is(self, claim: Claim) -> ColumnElement[bool]:
        return and_(
            _COLUMNS.id == claim.id,
            _COLUMNS.state == "translating",
            _COLUMNS.worker == self._worker,
            _COLUMNS.attempts == claim.attempt,
        )

    def _fail(self, connection: Connection, which: ColumnElement[bool], message: str) -> None:
        self._take_back(connection, which)
        failed = connection.execute(
            update(DOCUMENTS)
            .where(and_(which, _UNFINISHED))
            .values(state="error", error=message, size=0, changed=self._clock())
            .returning(_COLUMNS.id)
        ).scalars()
        connection.execute(delete(CONTENTS).where(CONTENTS.c.document.in_(failed.all())))

    def _remove(self, connection: Connection, which: ColumnElement[bool]) -> None:
        self._take_back(connection, which)
        connection.execute(delete(DOCUMENTS).where(which))

    def _take_back(self, connection: Connection, which: ColumnElement[bool]) -> None:
        rows = connection.execute(
            select(_COLUMNS.account, _COLUMNS.month, _COLUMNS.accepted, _COLUMNS.characters).where(
                and_(which, _UNFINISHED)
            )
        )
        # The day for which it was charged.
        used = [
            Used((account, month), _day(accepted), Amount() - Amount(characters, 1))
            for account, month, accepted, characters in rows
        ]
        if used:
            add_usage(connection, used)

    def _in_the_way(
        self,
        connection: Connection,
        caller: str | None,
        size: int,
        unopened: Sequence[tuple[str | None, int]],
    ) -> list[str]:
        """The ids of the translations to remove for a document; raises ``DocumentsFull``."""
        rows = connection.execute(
            select(_COLUMNS.id, _COLUMNS.caller, _COLUMNS.size, _COLUMNS.state, _COLUMNS.changed)
        ).all()
        unfinished = [(row.caller, row.size) for row in rows if row.state in _WAITING]
        self._refuse_if_too_many_wait(caller, size, [*unfinished, *unopened])
        kept, limits = list(rows), self._limits
        evicted = self._oldest_in_the_way(caller, kept, size, limits.kept_bytes, lambda r: r.size)
        return evicted + self._oldest_in_the_way(caller, kept, 1, limits.kept, lambda _: 1)

    def _refuse_if_too_many_wait(
        self, caller: str | None, size: int, waiting: Sequence[tuple[str | None, int]]
    ) -> None:
        own = [each for each in waiting if each[0] == caller]
        for documents, share in ((waiting, 1.0), (own, self._share(caller))):
            used = sum(size for _, size in documents)
            if (
                len(documents) >= self._limits.waiting * share
                or used + size > self._limits.waiting_bytes * share
            ):
                raise DocumentsFull

    def _oldest_in_the_way(
        self,
        caller: str | None,
        kept: list[Any],
        new: int,
        limit: int,
        amount: Callable[[Any], int],
    ) -> list[str]:
        """Translations to remove, and removed from ``kept``, so that ``new`` of ``caller`` fits
        into ``limit``, bytes or documents as ``amount`` counts them.

        The caller's own above its share, otherwise those of the caller with most; the oldest first.
        Raises ``DocumentsFull`` if unfinished documents take the space.
        """
        evicted: list[str] = []
        own_limit = limit * self._share(caller)
        while True:
            used = Counter[str | None]()
            for row in kept:
                used[row.caller] += amount(row)
            finished = [row for row in kept if amount(row) and row.state not in _WAITING]
            if used[caller] + new > own_limit:
                finished = [row for row in finished if row.caller == caller]
            elif used.total() + new <= limit:
                return evicted
            if not finished:
                raise DocumentsFull
            most = max(used[row.caller] for row in finished)
            candidates = [row for row in finished if used[row.caller] == most]
            oldest = min(candidates, key=lambda row: row.changed)
            kept.remove(oldest)
            evicted.append(oldest.id)

    def _share(self, caller: str | None) -> float:
        """The share of the limits for one caller; an unknown caller may use all."""
        return 1.0 if caller is None else self._limits.share


_WAITING = ("queued", "translating")
_QUEUED: dict[str, Any] = {"state": "queued", "worker": None, "progress": 0.0}


def _job(connection: Connection, which: ColumnElement[bool]) -> DocumentJob:
    row = connection.execute(select(*_SHOWN).where(which)).mappings().first()
    if row is None:
        raise DocumentNotFound
    return DocumentJob(**row)


def _day(seconds: float) -> str:
    return day_of(datetime.fromtimestamp(seconds, UTC))


def _has_id(identifier: str) -> ColumnElement[bool]:
    """Condition on an id from a client; raises ``DocumentNotFound`` for an impossible one."""
    # PostgreSQL refuses texts with this character.
    if "\0" in identifier:
        raise DocumentNotFound
    return _COLUMNS.id == identifier


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
