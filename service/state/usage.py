"""Monthly usage ledger: characters and documents per caller, with quotas. Independent of keys.

Usage is written once a second and at shutdown, so a crash may lose the last second. A quota counts
usage that is written, pending or reserved by running requests, so concurrent requests of a process
cannot exceed it together. Processes that share the database learn each other's usage once a second,
for the callers of the last seconds, so all of them together can exceed a quota by at most what they
admit within about a second. Each batch has a number, so that a batch whose commit was not
confirmed is not written twice. While the database is away, usage is counted in memory, and quotas
are those of the last known sums.
"""

from __future__ import annotations

import asyncio
import calendar
import logging
import secrets
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, Table, and_, delete, or_, select

from service.state.database import Database
from service.state.errors import QuotaExceeded, StateFailed
from service.state.schema import SETTLEMENTS, USAGE, USAGE_BY_DAY, upsert

logger = logging.getLogger(__name__)

_FLUSH_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 60.0
"""Longest pause between attempts while writes fail."""
_PATIENCE_SECONDS = 1.0
"""How long a request waits for the total of a caller that this process has not seen."""
_WATCHED_SECONDS = 10.0
"""How long after its last request the total of a caller with a quota is read in each flush."""
_REMEMBERED = timedelta(days=1)
"""Age at which the number of a process that has ended is removed."""
_DAYS_KEPT = timedelta(days=400)
_ANONYMOUS = ""
"""The name under which all callers without a key are counted together."""

Account = tuple[str, str]
"""A caller and a month, such as 2026-11."""


@dataclass(frozen=True, slots=True)
class Amount:
    characters: int = 0
    documents: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.characters + other.characters, self.documents + other.documents)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.characters - other.characters, self.documents - other.documents)

    def __bool__(self) -> bool:
        return self != _NOTHING


_NOTHING = Amount()


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of a caller from ``begins`` to ``ends``, the bounds of the month in UTC."""

    characters: int
    documents: int
    begins: datetime
    ends: datetime


@dataclass(frozen=True, slots=True)
class Used:
    """Usage of an account on a day, such as 2026-11-28; negative if it is taken back."""

    account: Account
    day: str
    amount: Amount


@dataclass(frozen=True, slots=True)
class Booking:
    """Usage that is reserved until a transaction writes it; see ``UsageLedger.booking``."""

    account: Account
    amount: Amount

    def write(self, connection: Connection, day: str) -> None:
        """Add it to the written usage of a day."""
        add_usage(connection, [Used(self.account, day, self.amount)])


@dataclass(slots=True)
class _Sums:
    written: Amount = field(default=_NOTHING)
    known: bool = False
    """Whether ``written`` has been read from the database."""
    pending: Amount = field(default=_NOTHING)
    """Used, not yet written."""
    reserved: Amount = field(default=_NOTHING)
    """Reserved by requests in progress; counts against the quota."""
    watched_until: float = 0.0

    @property
    def used(self) -> Amount:
        return self.written + self.pending


class Charge:
    """Amount that is reserved for a request in progress, part by part used. Event loop only."""

    def __init__(self, sums: _Sums, amount: Amount) -> None:
        self._sums = sums
        self._left = amount
        sums.reserved += amount

    def use(self, characters: int) -> None:
        """Charge for characters, at most those reserved, also if the work fails later."""
        self._spend(Amount(min(characters, self._left.characters)))

    def finish(self) -> None:
        """Charge for everything that is left."""
        self._spend(self._left)

    def note_written(self) -> None:
        """Count everything that is left as written by a transaction."""
        # The next flush reads the sum of all processes.
        self._sums.written += self._left
        self.release()

    def release(self) -> None:
        """Reserve nothing any longer."""
        self._sums.reserved -= self._left
        self._left = _NOTHING

    def _spend(self, amount: Amount) -> None:
        self._left -= amount
        self._sums.reserved -= amount
        self._sums.pending += amount


class UsageLedger:
    """Usage of all callers, for one event loop; runs from ``start`` to ``close``."""

    def __init__(
        self,
        database: Database,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._now = now
        self._clock = clock
        self._name = secrets.token_hex(8)
        self._number = 0
        self._batch: dict[Account, Amount] = {}
        """The batch that is being written, or whose commit has not been confirmed."""
        self._accounts: dict[Account, _Sums] = {}
        # Serialises reads and flushes: a read must not miss a flush that cleared ``pending``.
        self._exchanging = asyncio.Lock()
        self._flushing: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the task that writes once a second."""
        assert self._flushing is None
        self._flushing = asyncio.create_task(self._flush_forever())

    async def close(self) -> None:
        """Write pending usage. If that fails, its amount is logged."""
        if self._flushing is not None:
            # Do not cancel during a write: its amount would be written a second time.
            async with self._exchanging:
                self._flushing.cancel()
            await asyncio.gather(self._flushing, return_exceptions=True)
            self._flushing = None
        await self._flush_or_log()

    @asynccontextmanager
    async def charge(
        self, caller: str | None, characters: int, documents: int = 0, quota: int = 0
    ) -> AsyncIterator[Charge]:
        """Charge a caller for the work done inside. If it raises, only for what it has used.

        ``caller`` is ``None`` for callers without a key. ``quota`` is in characters a month; 0 is
        unlimited. Raises ``QuotaExceeded`` before any work is done.
        """
        _, charge = await self._reserve(caller, Amount(characters, documents), quota)
        try:
            yield charge
            charge.finish()
        finally:
            charge.release()

    @asynccontextmanager
    async def booking(
        self, caller: str | None, characters: int, documents: int = 0, quota: int = 0
    ) -> AsyncIterator[Booking]:
        """Charge by a transaction inside, which writes the booking with what it pays for."""
        amount = Amount(characters, documents)
        account, charge = await self._reserve(caller, amount, quota)
        try:
            yield Booking(account, amount)
            charge.note_written()
        finally:
            charge.release()

    async def of(self, caller: str | None) -> Usage:
        """Usage of a caller this month, including the written usage of other processes."""
        now = self._now()
        account = (caller or _ANONYMOUS, month_of(now))
        async with self._exchanging:
            written = (await self._database.read(lambda c: _read(c, [account])))[account]
            sums = self._accounts.get(account)
            if sums is not None:
                sums.written, sums.known = written, True
            used = sums.used if sums is not None else written
        return Usage(used.characters, used.documents, *_bounds(now))

    async def written_in(self, month: str) -> dict[str, Amount]:
        """Written usage of a month, such as 2026-11, by caller; all without a key are ``""``."""
        columns = USAGE.c
        its = select(USAGE).where(columns.month == month).order_by(columns.caller)
        rows = await self._database.read(lambda connection: connection.execute(its).all())
        return {row.caller: Amount(row.characters, row.documents) for row in rows}

    async def by_day(self, month: str) -> dict[tuple[str, str], Amount]:
        """Written usage by caller and day of a month, such as 2026-11-28, sorted by day.

        Usage counts for the day on which it was written, about a second later, and at the end of a
        month for its last day, so that the days add up to the month.
        """
        columns = USAGE_BY_DAY.c
        its = select(USAGE_BY_DAY).where(columns.day.startswith(f"{month}-"))
        its = its.order_by(columns.day, columns.caller)
        rows = await self._database.read(lambda connection: connection.execute(its).all())
        return {(row.caller, row.day): Amount(row.characters, row.documents) for row in rows}

    async def flush(self) -> None:
        """Write pending usage; raises ``StateFailed`` and then keeps it for the next flush."""
        async with self._exchanging:
            if not self._batch:
                self._batch = {key: a.pending for key, a in self._accounts.items() if a.pending}
                self._number += bool(self._batch)
            watched = [key for key, a in self._accounts.items() if a.watched_until > self._clock()]
            if self._batch or watched:
                self._note_written(await self._database.write(lambda c: self._settle(c, watched)))
            this_month = month_of(self._now())
            for key, sums in list(self._accounts.items()):
                if key[1] != this_month and not sums.pending and not sums.reserved:
                    del self._accounts[key]

    def _settle(
        self, connection: Connection, watched: Collection[Account]
    ) -> Mapping[Account, Amount]:
        """Write the batch unless it is written; return the sums of its and the watched accounts."""
        written = self._now()
        if self._batch and self._record_number(connection, written):
            if self._number == 1:
                old = (written - _REMEMBERED).isoformat()
                connection.execute(delete(SETTLEMENTS).where(SETTLEMENTS.c.written < old))
                first = day_of(written - _DAYS_KEPT)
                connection.execute(delete(USAGE_BY_DAY).where(USAGE_BY_DAY.c.day < first))
            day = day_of(written)
            add_usage(connection, [Used(key, day, amount) for key, amount in self._batch.items()])
        return _read(connection, {*self._batch, *watched})

    def _record_number(self, connection: Connection, written: datetime) -> bool:
        """Store the number of the batch; return whether the batch had not been written."""
        row = {"ledger": self._name, "number": self._number, "written": written.isoformat()}
        numbered = upsert(connection, SETTLEMENTS)
        # The upsert waits for an earlier attempt whose commit is late, and then sees its number.
        statement = numbered.on_conflict_do_update(
            index_elements=[SETTLEMENTS.c.ledger],
            set_={name: numbered.excluded[name] for name in ("number", "written")},
            where=SETTLEMENTS.c.number < numbered.excluded.number,
        ).returning(SETTLEMENTS.c.number)
        return connection.execute(statement, row).first() is not None

    def _note_written(self, totals: Mapping[Account, Amount]) -> None:
        for key, amount in self._batch.items():
            self._accounts[key].pending -= amount
        self._batch = {}
        for key, total in totals.items():
            self._accounts[key].written, self._accounts[key].known = total, True

    async def _reserve(
        self, caller: str | None, amount: Amount, quota: int
    ) -> tuple[Account, Charge]:
        now = self._now()
        account = (caller or _ANONYMOUS, month_of(now))
        sums = self._accounts.setdefault(account, _Sums())
        if quota:
            if not sums.known:
                await self._learn(account, sums)
                # At the end of a month, a flush may have dropped it meanwhile.
                sums = self._accounts.setdefault(account, sums)
            sums.watched_until = self._clock() + _WATCHED_SECONDS
            taken = (sums.used + sums.reserved).characters
            if taken + amount.characters > quota:
                raise QuotaExceeded(amount.characters, taken, quota, _bounds(now)[1])
        return account, Charge(sums, amount)

    async def _learn(self, account: Account, sums: _Sums) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS), self._exchanging:
                if not sums.known:
                    totals = await self._database.read(lambda c: _read(c, [account]))
                    sums.written = totals[account]
        except (StateFailed, TimeoutError):
            # The next flush reads the sum. Meanwhile this process counts alone.
            logger.warning("a quota is applied without what was used before")
        sums.known = True

    async def _flush_forever(self) -> None:
        pause = _FLUSH_SECONDS
        while True:
            await asyncio.sleep(pause)
            written = await self._flush_or_log()
            pause = _FLUSH_SECONDS if written else min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _flush_or_log(self) -> bool:
        try:
            await self.flush()
        except StateFailed:
            waiting = sum(account.pending.characters for account in self._accounts.values())
            logger.error("usage of %d characters has not been written", waiting)
            return False
        return True


def add_usage(connection: Connection, used: Iterable[Used]) -> None:
    """Add to the written usage, by month and by day.

    A day outside of its account's month is replaced by the nearest one inside.
    """
    by_month: defaultdict[tuple[str, str], Amount] = defaultdict(Amount)
    by_day: defaultdict[tuple[str, str], Amount] = defaultdict(Amount)
    for each in used:
        caller, month = each.account
        _, days = calendar.monthrange(*map(int, month.split("-")))
        day = max(f"{month}-01", min(each.day, f"{month}-{days}"))
        by_month[caller, month] += each.amount
        by_day[caller, day] += each.amount
    _add(connection, USAGE, "month", by_month)
    _add(connection, USAGE_BY_DAY, "day", by_day)


def _add(
    connection: Connection, table: Table, period: str, amounts: Mapping[tuple[str, str], Amount]
) -> None:
    # All processes lock rows in the same order, so that none waits for another in a circle.
    rows = [
        {"caller": caller, period: when, "characters": a.characters, "documents": a.documents}
        for (caller, when), a in sorted(amounts.items())
    ]
    columns = table.c
    added = upsert(connection, table)
    sums = {name: columns[name] + added.excluded[name] for name in ("characters", "documents")}
    connection.execute(
        added.on_conflict_do_update(index_elements=[columns.caller, columns[period]], set_=sums),
        rows,
    )


def _read(connection: Connection, accounts: Iterable[Account]) -> dict[Account, Amount]:
    """The written usage of each account."""
    columns = USAGE.c
    wanted = dict.fromkeys(accounts, _NOTHING)
    months = {month for _, month in wanted}
    its = [
        and_(columns.month == month, columns.caller.in_([c for c, m in wanted if m == month]))
        for month in months
    ]
    for caller, month, characters, documents in connection.execute(select(USAGE).where(or_(*its))):
        wanted[caller, month] = Amount(characters, documents)
    return wanted


def month_of(now: datetime) -> str:
    """The month of a time, as usage is kept by it."""
    return f"{now.year:04}-{now.month:02}"


def day_of(now: datetime) -> str:
    """The day of a time, as usage is kept by it."""
    return now.date().isoformat()


def _bounds(now: datetime) -> tuple[datetime, datetime]:
    """The start of this month and of the next."""
    begins = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    year, month = (now.year + 1, 1) if now.month == 12 else (now.year, now.month + 1)
    return begins, begins.replace(year=year, month=month)
