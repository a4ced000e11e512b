"""Monthly usage ledger: characters and documents per caller, with quotas. Independent of keys.

Usage is written once a second and at shutdown, so a crash may lose the last second. A quota counts
usage that is written, pending or reserved by running requests, so concurrent requests cannot exceed
it together. Processes that share the database see each other's usage when they write. They can
exceed a quota by at most the usage of one second.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from service.state.database import Database
from service.state.errors import QuotaExceeded, StateFailed

logger = logging.getLogger(__name__)

_FLUSH_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 60.0
"""Longest pause between attempts while writes fail."""
_ANONYMOUS = ""
"""The name under which all callers without a key are counted together."""

_Key = tuple[str, str]
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


@dataclass(slots=True)
class _Account:
    written: Amount
    pending: Amount = field(default=_NOTHING)
    """Used, not yet written."""
    reserved: Amount = field(default=_NOTHING)
    """Reserved by requests in progress; counts against the quota."""

    @property
    def used(self) -> Amount:
        return self.written + self.pending


class Charge:
    """Amount that is reserved for a request in progress, part by part used. Event loop only."""

    def __init__(self, account: _Account, amount: Amount) -> None:
        self._account = account
        self._left = amount
        account.reserved += amount

    def use(self, characters: int) -> None:
        """Charge for characters, at most those reserved, also if the work fails later."""
        self._spend(Amount(min(characters, self._left.characters)))

    def finish(self) -> None:
        """Charge for everything that is left."""
        self._spend(self._left)

    def release(self) -> None:
        """Reserve nothing any longer."""
        self._account.reserved -= self._left
        self._left = _NOTHING

    def _spend(self, amount: Amount) -> None:
        self._left -= amount
        self._account.reserved -= amount
        self._account.pending += amount


class UsageLedger:
    """Usage of all callers, for one event loop; runs from ``start`` to ``close``."""

    def __init__(
        self, database: Database, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._database = database
        self._now = now
        self._accounts: dict[_Key, _Account] = {}
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
        now = self._now()
        account = await self._account((caller or _ANONYMOUS, _month(now)))
        amount = Amount(characters, documents)
        taken = account.used.characters + account.reserved.characters
        if quota and taken + characters > quota:
            raise QuotaExceeded(characters, taken, quota, _bounds(now)[1])
        charge = Charge(account, amount)
        try:
            yield charge
            charge.finish()
        finally:
            charge.release()

    async def of(self, caller: str | None) -> Usage:
        """Usage of a caller this month, including the written usage of other processes."""
        now = self._now()
        key = (caller or _ANONYMOUS, _month(now))
        async with self._exchanging:
            written = await self._database.read(lambda connection: _read(connection, key))
            account = self._accounts.get(key)
            if account is not None:
                account.written = written
            used = account.used if account is not None else written
        return Usage(used.characters, used.documents, *_bounds(now))

    async def flush(self) -> None:
        """Write pending usage; raises ``StateFailed`` and then keeps it for the next flush."""
        async with self._exchanging:
            sums = {key: a.pending for key, a in self._accounts.items() if a.pending}
            if sums:
                totals = await self._database.write(
                    lambda connection: [_add(connection, *used) for used in sums.items()]
                )
                self._note_written(sums, totals)
            this_month = _month(self._now())
            for key, account in list(self._accounts.items()):
                if key[1] != this_month and not account.pending and not account.reserved:
                    del self._accounts[key]

    def _note_written(self, sums: dict[_Key, Amount], totals: Sequence[Amount]) -> None:
        for (key, amount), total in zip(sums.items(), totals, strict=True):
            account = self._accounts[key]
            account.pending -= amount
            account.written = total

    async def _account(self, key: _Key) -> _Account:
        if key not in self._accounts:
            async with self._exchanging:
                if key not in self._accounts:
                    written = await self._database.read(lambda connection: _read(connection, key))
                    self._accounts[key] = _Account(written)
        return self._accounts[key]

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


def _add(connection: sqlite3.Connection, key: _Key, amount: Amount) -> Amount:
    connection.execute(
        "INSERT INTO usage VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
        "characters = characters + excluded.characters, documents = documents + excluded.documents",
        (*key, amount.characters, amount.documents),
    )
    return _read(connection, key)


def _read(connection: sqlite3.Connection, key: _Key) -> Amount:
    row = connection.execute(
        "SELECT characters, documents FROM usage WHERE caller = ? AND month = ?", key
    ).fetchone()
    return Amount(*row) if row else _NOTHING


def _month(now: datetime) -> str:
    return f"{now.year:04}-{now.month:02}"


def _bounds(now: datetime) -> tuple[datetime, datetime]:
    """The start of this month and of the next."""
    begins = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    year, month = (now.year + 1, 1) if now.month == 12 else (now.year, now.month + 1)
    return begins, begins.replace(year=year, month=month)
