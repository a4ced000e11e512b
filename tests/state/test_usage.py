from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr
from sqlalchemy import Connection

from service.state import usage as module
from service.state.database import FILE_NAME, Database
from service.state.errors import QuotaExceeded, StateFailed
from service.state.usage import Amount, UsageLedger, Used, add_usage
from tests.state.clocks import Clock, run
from tests.support.raising import raiser
from tests.support.waiting import cancelled

CALLERS = st.sampled_from([None, "ann", "bob"])


class WorkFailed(Exception):
    pass


async def charge(ledger: UsageLedger, caller: str | None, characters: int, **limits: int) -> None:
    """Charge for work that is done at once."""
    async with ledger.charge(caller, characters, **limits):
        pass


async def used(ledger: UsageLedger, caller: str | None = None) -> tuple[int, int]:
    usage = await ledger.of(caller)
    return usage.characters, usage.documents


async def test_usage_is_charged_to_the_caller_when_work_is_done(database: Database) -> None:
    ledger = UsageLedger(database)

    async def hang() -> None:
        async with ledger.charge("ann", 10, quota=10):
            await asyncio.Event().wait()

    work = asyncio.create_task(hang())
    await asyncio.sleep(0)
    await cancelled(work)
    async with ledger.charge("ann", 10, quota=10):
        assert await used(ledger, "ann") == (0, 0)
    await charge(ledger, "ann", 5, documents=1)
    await charge(ledger, None, 7)
    for _ in range(2):
        assert await used(ledger, "ann") == (15, 1)
        assert await used(ledger, "bob") == (0, 0)
        assert await used(ledger) == (7, 0)
        await ledger.flush()


async def test_a_request_over_the_quota_is_refused_before_it_is_translated(
    database: Database,
) -> None:
    ledger = UsageLedger(database, Clock().now)
    async with ledger.charge("ann", 90, quota=100):
        with pytest.raises(QuotaExceeded) as refusal:
            async with ledger.charge("ann", 11, quota=100):
                pytest.fail("it was translated")
    assert str(refusal.value) == (
        "Quota exceeded: 11 characters are more than the 10 left of 100 for this month; "
        "the next begins on 2026-12-01 (UTC)"
    )
    await charge(ledger, "ann", 10, quota=100)


@given(
    st.integers(1, 50),
    st.lists(st.tuples(CALLERS, st.integers(0, 20), st.integers(0, 4), st.booleans()), max_size=30),
    st.sets(st.integers(0, 10)),
)
def test_concurrent_charges_stay_within_quota_and_bill_finished_work(
    quota: int, charges: list[tuple[str | None, int, int, bool]], flushes: set[int]
) -> None:
    async def check() -> None:
        async with Database(None) as database:
            ledger = UsageLedger(database)
            done = {caller: 0 for caller in (None, "ann", "bob")}
            doing = dict(done)

            async def charge(caller: str | None, characters: int, turns: int, ok: bool) -> None:
                try:
                    async with ledger.charge(caller, characters, quota=quota):
                        doing[caller] += characters
                        assert done[caller] + doing[caller] <= quota
                        for _ in range(turns):
                            await asyncio.sleep(0)
                        doing[caller] -= characters
                        if not ok:
                            raise WorkFailed
                        done[caller] += characters
                except QuotaExceeded:
                    assert done[caller] + doing[caller] + characters > quota
                except WorkFailed:
                    pass

            async def flush() -> None:
                for turn in range(10):
                    if turn in flushes:
                        await ledger.flush()
                    await asyncio.sleep(0)

            await asyncio.gather(flush(), *(charge(*given) for given in charges))
            for _ in range(2):
                assert {caller: (await used(ledger, caller))[0] for caller in done} == done
                await ledger.flush()

    run(check())


@settings(max_examples=25)
@given(st.lists(st.lists(st.tuples(CALLERS, st.integers(0, 99)), max_size=5), max_size=4))
def test_usage_survives_reopening(
    tmp_path_factory: pytest.TempPathFactory, runs: list[list[tuple[str | None, int]]]
) -> None:
    path = tmp_path_factory.mktemp("usage") / FILE_NAME
    total: dict[str | None, int] = {None: 0, "ann": 0, "bob": 0}

    async def check() -> None:
        for charges in runs:
            async with Database(path) as database:
                ledger = UsageLedger(database)
                ledger.start()
                for caller, characters in charges:
                    async with ledger.charge(caller, characters, documents=1):
                        total[caller] += characters
                await ledger.close()
        async with Database(path) as database:
            ledger = UsageLedger(database)
            assert {caller: (await used(ledger, caller))[0] for caller in total} == total

    run(check())


async def test_usage_is_written_while_the_service_runs(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FLUSH_SECONDS", 0.001)
    ledger, elsewhere = UsageLedger(database), UsageLedger(database)
    ledger.start()
    await charge(ledger, "ann", 10)
    while await used(elsewhere, "ann") != (10, 0):
        await asyncio.sleep(0.001)
    await ledger.close()
    assert await used(elsewhere, "ann") == (10, 0)


async def test_usage_of_processes_sharing_a_state_adds_up(
    place: Path | SecretStr, database: Database
) -> None:
    async with Database(place) as first, Database(place) as second:
        one, other = UsageLedger(first), UsageLedger(second)
        for ledger in (one, other):
            await charge(ledger, "ann", 40, quota=100)
            await ledger.flush()
        assert await used(one, "ann") == await used(other, "ann") == (80, 0)
        for ledger in (one, other):
            with pytest.raises(QuotaExceeded):
                await charge(ledger, "ann", 21, quota=100)


async def test_usage_resets_monthly_and_work_counts_in_its_starting_month(
    database: Database,
) -> None:
    clock = Clock()
    ledger = UsageLedger(database, clock.now)
    async with ledger.charge("ann", 100, quota=100):
        usage = await ledger.of("ann")
        assert usage.begins == datetime(2026, 11, 1, tzinfo=UTC)
        assert usage.ends == datetime(2026, 12, 1, tzinfo=UTC)
        clock.seconds += 20 * 24 * 3600
        await ledger.flush()
        await charge(ledger, "ann", 30, quota=100)
    usage = await ledger.of("ann")
    assert usage.begins == datetime(2026, 12, 1, tzinfo=UTC)
    assert usage.ends == datetime(2027, 1, 1, tzinfo=UTC)
    assert usage.characters == 30
    await ledger.flush()
    clock.seconds -= 20 * 24 * 3600
    assert await used(ledger, "ann") == (100, 0)


async def test_usage_is_kept_and_written_after_a_failed_flush(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = UsageLedger(database)
    await charge(ledger, "ann", 10)

    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr(Database, "write", raiser(StateFailed()))
        with pytest.raises(StateFailed):
            await ledger.flush()
        await ledger.close()
    assert "usage of 10 characters has not been written" in caplog.text
    assert await used(ledger, "ann") == (10, 0)
    await ledger.flush()
    assert await used(UsageLedger(database), "ann") == (10, 0)


async def test_stopping_while_usage_is_written_bills_it_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FLUSH_SECONDS", 0.0)
    for expected in range(1, 51):
        ledger = UsageLedger(database)
        await charge(ledger, "ann", 1)
        ledger.start()
        for _ in range(expected % 5):
            await asyncio.sleep(0)
        await ledger.close()
        assert await used(ledger, "ann") == (expected, 0)


async def test_a_batch_whose_commit_was_not_confirmed_is_written_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = UsageLedger(database)
    await charge(ledger, "ann", 10)

    async def write_and_lose_the_answer(work: Callable[[Connection], Any]) -> Any:
        def work_and_commit_late(connection: Connection) -> None:
            work(connection)
            worked.set()
            time.sleep(0.2)

        attempts.append(asyncio.create_task(write(database, work_and_commit_late)))
        await asyncio.to_thread(worked.wait)
        raise StateFailed

    write, worked, attempts = Database.write, threading.Event(), list[asyncio.Task[None]]()
    with monkeypatch.context() as patch, pytest.raises(StateFailed):
        patch.setattr(database, "write", write_and_lose_the_answer)
        await ledger.flush()
    await charge(ledger, "ann", 5)
    for _ in range(3):
        await ledger.flush()
    assert await used(UsageLedger(database), "ann") == (15, 0)


async def test_processes_learn_each_others_usage_while_a_caller_is_active(
    database: Database,
) -> None:
    one, other = UsageLedger(database), UsageLedger(database)
    for ledger in (one, other):
        await charge(ledger, "ann", 1, quota=100)
        await ledger.flush()
    await charge(one, "ann", 90, quota=100)
    await one.flush()
    await other.flush()
    with pytest.raises(QuotaExceeded):
        await charge(other, "ann", 9, quota=100)
    await charge(other, "ann", 8, quota=100)


async def _silent(*_: object) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("read", [raiser(StateFailed()), _silent], ids=["away", "silent"])
async def test_quotas_are_counted_in_memory_without_the_database(
    database: Database, monkeypatch: pytest.MonkeyPatch, read: Callable[..., object]
) -> None:
    monkeypatch.setattr(module, "_PATIENCE_SECONDS", 0.01)
    ledger = UsageLedger(database)
    with monkeypatch.context() as patch:
        patch.setattr(Database, "read", read)
        await charge(ledger, None, 5)
        await charge(ledger, "ann", 60, quota=100)
        with pytest.raises(QuotaExceeded):
            await charge(ledger, "ann", 41, quota=100)
    await ledger.flush()
    assert await used(UsageLedger(database), "ann") == (60, 0)


async def test_a_booking_is_written_with_its_transaction_and_taken_back_with_another(
    database: Database,
) -> None:
    ledger = UsageLedger(database)
    async with ledger.booking("ann", 60, documents=1, quota=100) as booking:
        with pytest.raises(QuotaExceeded):
            await charge(ledger, "ann", 41, quota=100)
        await database.write(lambda c: booking.write(c, "2026-11-15"))
    with pytest.raises(QuotaExceeded):
        await charge(ledger, "ann", 41, quota=100)
    assert await used(UsageLedger(database), "ann") == (60, 1)
    taken_back = Used(booking.account, "2026-11-15", Amount() - booking.amount)
    await database.write(lambda c: add_usage(c, [taken_back]))
    await ledger.flush()
    await charge(ledger, "ann", 100, quota=100)


async def test_usage_by_day_adds_up_to_that_of_the_month_and_old_days_go(
    database: Database,
) -> None:
    clock = Clock()
    ledger = UsageLedger(database, clock.now)
    for characters in (3, 4):
        await charge(ledger, "ann", characters)
        await charge(ledger, None, 1)
        await ledger.flush()
    clock.seconds += 24 * 3600
    await charge(ledger, "ann", 10, documents=1)
    await ledger.flush()
    assert await ledger.by_day("2026-11") == {
        ("", "2026-11-15"): Amount(2),
        ("ann", "2026-11-15"): Amount(7),
        ("ann", "2026-11-16"): Amount(10, 1),
    }
    assert (await ledger.written_in("2026-11"))["ann"] == Amount(17, 1)
    # Work of November that is written in December, after a database was away.
    clock.seconds += 14 * 24 * 3600
    async with ledger.charge("ann", 5):
        clock.seconds += 24 * 3600
    await ledger.flush()
    assert (await ledger.by_day("2026-11"))["ann", "2026-11-30"] == Amount(5)
    assert await ledger.by_day("2026-12") == {}
    clock.seconds += 385 * 24 * 3600
    # A ledger that begins removes what is too old.
    later = UsageLedger(database, clock.now)
    await charge(later, "bob", 1)
    await later.flush()
    assert await ledger.by_day("2026-11") == {
        ("ann", "2026-11-16"): Amount(10, 1),
        ("ann", "2026-11-30"): Amount(5),
    }
