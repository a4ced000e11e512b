"""Characters and documents translated by each caller in each month. Knows no keys, only names.

What was used is written once a second and at the end, so a crash may forget the last second. A
quota counts what is written, what waits to be written and what is being translated, so requests
that run at once never exceed it together; several processes that share the database learn what
the others have used when they write, and at most exceed it by what they take within a second.
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
"""While nothing can be written."""
_ANONYMOUS = ""
"""The name under which all who have no key are counted together."""

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
    """What a caller has used from ``begins`` on; counting begins anew at ``ends``. Both in UTC."""

    characters: int
    documents: int
    begins: datetime
    ends: datetime


@dataclass(slots=True)
class _Account:
    written: Amount
    pending: Amount = field(default=_NOTHING)
    """Used and not written yet."""
    reserved: Amount = field(default=_NOTHING)
    """Being translated: not used yet, and no longer to be had."""

    @property
    def used(self) -> Amount:
        return self.written + self.pending


class UsageLedger:
    """Lives on one event loop, between ``start`` and ``close``."""

    def __init__(
        self, database: Database, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._database = database
        self._now = now
        self._accounts: dict[_Key, _Account] = {}
        # What is read must not be older than what was last written and taken off the pending.
        self._exchanging = asyncio.Lock()
        self._flushing: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to write once a second."""
        assert self._flushing is None
        self._flushing = asyncio.create_task(self._flush_forever())

    async def close(self) -> None:
        """Write what is left. What cannot be written is logged, with how much it was."""
        if self._flushing is not None:
            # Not while it writes: what a cancelled write has written would be written again.
            async with self._exchanging:
                self._flushing.cancel()
            await asyncio.gather(self._flushing, return_exceptions=True)
            self._flushing = None
        await self._flush_or_log()

    @asynccontextmanager
    async def charge(
        self, caller: str | None, characters: int, documents: int = 0, quota: int = 0
    ) -> AsyncIterator[None]:
        """Charge a caller for the work done inside, unless the work raises.

        ``caller`` is ``None`` for whoever has no name; a ``quota`` of 0 characters a month is
        unlimited. Raises ``QuotaExceeded`` before any work is done.
        """
        now = self._now()
        account = await self._account((caller or _ANONYMOUS, _month(now)))
        amount = Amount(characters, documents)
        taken = account.used.characters + account.reserved.characters
        if quota and taken + characters > quota:
            raise QuotaExceeded(characters, taken, quota, _bounds(now)[1])
        account.reserved += amount
        try:
            yield
            account.pending += amount
        finally:
            account.reserved -= amount

    async def of(self, caller: str | None) -> Usage:
        """What a caller has used this month, as far as any process has written it."""
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
        """Write what has been used since the last time; raises ``StateFailed``, and then nothing
        is lost and the next time writes it.
        """
        async with self._exchanging:
            sums = {key: a.pending for key, a in self._accounts.items() if a.pending}
            if sums:
                totals = await self._database.write(
                    lambda connection: [_add(connection, *used) for used in sums.items()]
                )
                self._written(sums, totals)
            this_month = _month(self._now())
            for key, account in list(self._accounts.items()):
                if key[1] != this_month and not account.pending and not account.reserved:
                    del self._accounts[key]

    def _written(self, sums: dict[_Key, Amount], totals: Sequence[Amount]) -> None:
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
    return f"{now:%Y-%m}"


def _bounds(now: datetime) -> tuple[datetime, datetime]:
    """When the month begins, and the next."""
    begins = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    year, month = (now.year + 1, 1) if now.month == 12 else (now.year, now.month + 1)
    return begins, begins.replace(year=year, month=month)
