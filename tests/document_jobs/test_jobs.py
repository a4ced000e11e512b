"""Tests of document jobs: limits, cancellation, charges and removal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import SecretStr

from service.api.access import Access, AccessPolicy, Caller
from service.catalogue.errors import NotReady, UnknownLanguage
from service.document_jobs import jobs as jobs_module
from service.document_jobs.jobs import Charge, DocumentJob, DocumentJobs, DocumentLimits
from service.document_jobs.types import DocumentNotFound, DocumentsFull, DocumentTooLarge
from service.document_jobs.work import DocumentOrder, DocumentWork
from service.engine.errors import EngineStopped
from service.engine.types import Origin
from service.state.database import Database
from service.state.errors import QuotaExceeded, StateFailed
from service.state.keys import KeyStore
from service.state.shared_rates import SharedRateLimits
from service.state.usage import Amount, UsageLedger
from service.text.errors import TranslationError
from service.text.types import LanguagePair
from service.translation.errors import DeadlineExceeded
from tests.support.raising import raiser
from tests.support.waiting import cancelled, until

Place = Path | SecretStr

CALLER = Caller("client", "key client", characters_per_month=100)


@dataclass
class Work:
    """Stub that upper-cases files once the gate is open."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)
    running: int = 0
    began: int = 0
    most: int = 0
    failure: Exception | None = None
    unpacked: int = 1
    """Ratio of the size of a document to that of its file."""

    async def open(self, order: DocumentOrder) -> Any:
        size = len(order.content)
        document = SimpleNamespace(
            media_type="text/plain", characters=size, size=size * self.unpacked
        )
        return SimpleNamespace(document=document, pair=LanguagePair("de", "en"), order=order)

    async def translate(self, opened: Any, report: Callable[[float], None]) -> bytes:
        self.running += 1
        self.began += 1
        self.most = max(self.most, self.running)
        try:
            report(0.5)
            await self.gate.wait()
            if self.failure is not None:
                raise self.failure
            content: bytes = opened.order.content
            return content.upper()
        finally:
            self.running -= 1


@dataclass
class Clock:
    seconds: float = 1000.0

    def __call__(self) -> float:
        return self.seconds


@dataclass
class Bench:
    jobs: DocumentJobs
    work: Work
    access: Access
    usage: UsageLedger
    clock: Clock
    killed: bool = False

    def charge(self, caller: Caller = CALLER) -> Charge:
        return partial(self.access.book, caller, documents=1)

    async def present(self, job: DocumentJob) -> DocumentJob:
        return await self.jobs.status(job.id, job.key)

    async def put_back(self, job: DocumentJob) -> None:
        async with asyncio.timeout(10):
            while (await self.present(job)).state != "queued":
                await asyncio.sleep(0.001)

    async def ended(self, job: DocumentJob) -> DocumentJob:
        async with asyncio.timeout(10):
            while (present := await self.present(job)).unfinished:
                await asyncio.sleep(0.001)
        return replace(present, key=job.key)

    async def done(self, **wanted: Any) -> DocumentJob:
        """A job that is let through and has ended."""
        self.work.gate.set()
        return await self.ended(await self.jobs.accept(order(**wanted), self.charge()))

    async def fetched(self, job: DocumentJob) -> bytes:
        return b"".join([piece async for piece in await self.jobs.fetch_once(job)])

    async def used(self) -> int:
        return (await self.access.usage(CALLER)).characters

    async def passes(self, seconds: int) -> None:
        for _ in range(seconds // 2):
            self.clock.seconds += 2
            await self.jobs.poll()

    async def kill(self) -> None:
        """End the replica without handing jobs back, as SIGKILL does."""
        self.killed = True
        tasks = [*self.jobs._running.values(), self.jobs._polling]
        for task in filter(None, tasks):
            task.cancel()
        await asyncio.gather(*filter(None, tasks), return_exceptions=True)


@asynccontextmanager
async def replica(place: Place, clock: Clock | None = None, **limits: Any) -> AsyncIterator[Bench]:
    async with Database(place, upgrade=True) as database:
        usage = UsageLedger(database)
        access = Access(AccessPolicy(), KeyStore(database), usage, SharedRateLimits())
        work, clock = Work(), clock or Clock()
        jobs = DocumentJobs(cast(DocumentWork, work), database, DocumentLimits(**limits), clock)
        jobs.start()
        b = Bench(jobs, work, access, usage, clock)
        try:
            yield b
        finally:
            if not b.killed:
                await jobs.close()


def bench(place: Place, **limits: Any) -> AbstractAsyncContextManager[Bench]:
    return replica(place, **limits)


def order(
    content: bytes = b"hallo", name: str = "a.txt", caller: str | None = None
) -> DocumentOrder:
    return DocumentOrder(name, content, "en", "de", origin=Origin("bulk", caller=caller or ""))


GREEDY = order(caller="greedy")


async def test_a_job_goes_through_its_states(place: Place) -> None:
    async with bench(place) as b:
        job = await b.jobs.accept(order(), b.charge())
        assert job.state == "queued"
        await until(lambda: b.work.running, 0.001)
        assert (await b.present(job)).state == "translating"
        b.clock.seconds += 6
        await b.jobs.poll()
        assert b.jobs.seconds_remaining(await b.present(job)) == 6
        b.work.gate.set()
        assert (await b.ended(job)).state == "done"
        assert b.jobs.seconds_remaining(await b.present(job)) is None
        assert await b.fetched(job) == b"HALLO"
        assert await b.used() == 5


async def test_running_jobs_are_limited_and_further_jobs_wait(place: Place) -> None:
    async with bench(place, running=2) as b:
        jobs = [await b.jobs.accept(order(), b.charge()) for _ in range(5)]
        await until(lambda: b.work.running >= 2, 0.001)
        states = [(await b.present(job)).state for job in jobs]
        assert sorted(states) == ["queued"] * 3 + ["translating"] * 2
        b.work.gate.set()
        assert {(await b.ended(job)).state for job in jobs} == {"done"}
        assert b.work.most == 2


@pytest.mark.parametrize(
    "limits", [{"waiting": 2}, {"waiting_bytes": 12}, {"kept_bytes": 12}, {"kept": 2}]
)
async def test_full_queue_refuses_documents_without_charge(
    place: Place, limits: dict[str, int]
) -> None:
    async with bench(place, **limits) as b:
        jobs = [await b.jobs.accept(order(), b.charge()) for _ in range(2)]
        with pytest.raises(DocumentsFull):
            await b.jobs.accept(order(), b.charge())
        b.work.gate.set()
        for job in jobs:
            await b.fetched(await b.ended(job))
        await b.done()
        assert await b.used() == 15


@pytest.mark.parametrize(
    ("limits", "accepted", "refused", "error"),
    [
        ({"document_bytes": 4}, [], order(), DocumentTooLarge),
        # Waiting documents count towards the quota of 100 characters.
        ({}, [order(b"x" * 60)], order(b"x" * 60), QuotaExceeded),
        # A small file counts by its content, which is three times as large here.
        ({"waiting_bytes": 20}, [order()], order(), DocumentsFull),
        # One caller fills only its share of the queue.
        ({"waiting": 4}, [GREEDY, GREEDY], GREEDY, DocumentsFull),
        ({"waiting_bytes": 60}, [GREEDY, GREEDY], GREEDY, DocumentsFull),
        # Unfinished documents are never evicted.
        ({"kept_bytes": 30}, [order(caller="a"), order(caller="b")], GREEDY, DocumentsFull),
        ({"kept": 2}, [order(caller="a"), order(caller="b")], GREEDY, DocumentsFull),
    ],
)
async def test_documents_beyond_a_limit_are_refused(
    place: Place,
    limits: dict[str, int],
    accepted: list[DocumentOrder],
    refused: DocumentOrder,
    error: type[Exception],
) -> None:
    async with bench(place, **limits) as b:
        b.work.unpacked = 3
        jobs = [await b.jobs.accept(each, b.charge()) for each in accepted]
        with pytest.raises(error):
            await b.jobs.accept(refused, b.charge())
        assert [(await b.present(job)).id for job in jobs] == [job.id for job in jobs]
        if GREEDY in accepted:
            await b.jobs.accept(order(caller="other"), b.charge())


async def test_failed_job_reports_its_error_and_is_not_charged(place: Place) -> None:
    async with bench(place) as b:
        b.work.failure = TranslationError("too hard")
        job = await b.done()
        assert (job.state, job.error) == ("error", "too hard")
        with pytest.raises(DocumentNotFound):
            await b.fetched(job)
        assert await b.used() == 0


FAILURES = [NotReady("loading"), EngineStopped("gone"), UnknownLanguage("fr", ["en"])]


@pytest.mark.parametrize("failure", FAILURES)
async def test_document_that_a_replica_cannot_translate_is_left_to_others(
    place: Place, failure: Exception
) -> None:
    async with bench(place) as b:
        b.work.failure = failure
        b.work.gate.set()
        job = await b.jobs.accept(order(), b.charge())
        for attempt in (1, 2):
            await until(lambda wanted=attempt: b.work.began == wanted, 0.001)
            await b.put_back(job)
            await b.passes(14)
            assert b.work.began == attempt
            await b.passes(2)
        assert (await b.ended(job)).error == str(failure)
        waiting = await b.jobs.accept(order(), b.charge())
        await until(lambda: b.work.began == 4, 0.001)
        await b.put_back(waiting)
        async with replica(place, b.clock) as other:
            other.work.gate.set()
            assert (await b.ended(waiting)).state == "done"
            assert b.work.began == 4


async def test_days_of_documents_that_fail_add_up_to_their_month(place: Place) -> None:
    async with bench(place) as b:
        b.clock.seconds = datetime(2026, 11, 30, 23, 59, 50, tzinfo=UTC).timestamp()
        job = await b.jobs.accept(order(), b.charge())
        b.clock.seconds += 30
        b.work.failure = TranslationError("too hard")
        b.work.gate.set()
        await b.ended(job)
        months, days = await b.usage.written_in("2026-11"), await b.usage.by_day("2026-11")
        assert sum((each for each in days.values()), Amount()) == months.get("ann", Amount())
        assert await b.usage.by_day("2026-12") == {}


async def test_replica_renews_its_leases_after_the_database_was_away(place: Place) -> None:
    async with replica(place, running=1) as b, replica(place, b.clock, running=1) as other:
        jobs = [await each.jobs.accept(order(), each.charge()) for each in (b, other)]
        await until(lambda: b.work.running and other.work.running, 0.001)
        b.clock.seconds += 40
        for each in (b, other):
            await each.jobs.poll()
        assert {(await b.present(job)).state for job in jobs} == {"translating"}
        for each in (b, other):
            each.work.gate.set()
        assert [(await b.ended(job)).state for job in jobs] == ["done", "done"]
        assert (b.work.began, other.work.began) == (1, 1)


async def test_result_whose_writing_was_not_confirmed_is_returned(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(place) as b:
        finish = b.jobs._queue.finish

        async def unconfirmed(*arguments: Any) -> Any:
            await finish(*arguments)
            monkeypatch.setattr(b.jobs._queue, "finish", finish)
            raise StateFailed

        monkeypatch.setattr(b.jobs._queue, "finish", unconfirmed)
        monkeypatch.setattr(jobs_module, "_CHECK_SECONDS", 0.01)
        monkeypatch.setattr(jobs_module, "_POLL_SECONDS", 0.01)
        b.work.gate.set()
        assert (await b.jobs.translate(order(), b.charge())).state == "done"


async def test_translation_beyond_the_time_limit_fails(place: Place) -> None:
    async with bench(place, seconds=0.01) as b:
        job = await b.ended(await b.jobs.accept(order(), b.charge()))
        assert job.error == str(DeadlineExceeded(0.01))


async def test_translate_returns_the_result_or_raises_the_error(place: Place) -> None:
    async with bench(place) as b:
        b.work.gate.set()
        job = await b.jobs.translate(order(name="Über uns.TXT"), b.charge())
        assert (job.state, job.filename) == ("done", "Über uns.txt")
        assert (await b.jobs.result(f"{job.id}.Über uns.txt"))[1] == b"HALLO"
        b.work.failure = NotReady("gone")
        with pytest.raises(NotReady):
            await b.jobs.translate(order(), b.charge())


async def test_cancelling_translate_stops_the_work(place: Place) -> None:
    async with bench(place, running=1) as b:
        waiting = asyncio.create_task(b.jobs.translate(order(), b.charge()))
        await until(lambda: b.work.running, 0.001)
        await cancelled(waiting)
        await until(lambda: not b.work.running, 0.001)
        b.clock.seconds += 6
        await b.jobs.poll()
        assert await b.used() == 0
        b.work.gate.set()
        await b.jobs.translate(order(), b.charge())
        assert await b.used() == 5


async def test_translations_are_removed_after_kept_seconds(place: Place) -> None:
    async with bench(place, kept_seconds=60) as b:
        old = await b.done()
        await b.passes(54)
        late = await b.done()
        await b.passes(6)
        with pytest.raises(DocumentNotFound):
            await b.present(old)
        assert (await b.present(late)).state == "done"


async def test_translation_is_removed_with_its_last_piece(place: Place) -> None:
    content = bytes(range(256)) * 600
    async with bench(place) as b:
        b.work.gate.set()
        job = await b.jobs.translate(
            order(content), b.charge(replace(CALLER, characters_per_month=0))
        )
        first = await b.jobs.fetch_once(job)
        begun = await anext(first)
        assert (await b.jobs.result(job.id))[0] == replace(job, key="")
        assert await b.fetched(job) == content.upper()
        with pytest.raises(DocumentNotFound):
            await b.jobs.result(job.id)
        with pytest.raises(DocumentNotFound):
            await b.jobs.fetch_once(job)
        assert begun + b"".join([piece async for piece in first]) == content.upper()


async def test_job_is_submitted_translated_and_fetched_by_different_replicas(place: Place) -> None:
    async with replica(place, running=0) as one, replica(place) as two:
        job = await one.jobs.accept(order(), one.charge())
        two.work.gate.set()
        assert (await one.ended(job)).state == "done"
        assert await two.fetched(job) == b"HALLO"
        assert (one.work.most, two.work.most) == (0, 1)
        assert await one.used() == await two.used() == 5


async def test_jobs_of_a_stopped_replica_are_taken_up_by_the_next(place: Place) -> None:
    async with replica(place, running=1) as b:
        jobs = [await b.jobs.accept(order(), b.charge()) for _ in range(3)]
        await until(lambda: b.work.running, 0.001)
    async with replica(place) as b:
        b.work.gate.set()
        assert {(await b.ended(job)).state for job in jobs} == {"done"}
        assert await b.used() == 15


async def test_job_of_a_killed_replica_is_translated_once_more_after_its_lease(
    place: Place,
) -> None:
    async with replica(place) as killed:
        job = await killed.jobs.accept(order(), killed.charge())
        await until(lambda: killed.work.running, 0.001)
        await killed.kill()
        async with replica(place, killed.clock) as b:
            b.work.gate.set()
            await b.passes(28)
            assert (await b.present(job)).state == "translating"
            await b.passes(10)
            assert (await b.ended(job)).state == "done"
            assert (b.work.began, await b.used()) == (1, 5)


async def test_replica_whose_lease_has_ended_writes_no_result(place: Place) -> None:
    async with replica(place, running=1) as slow, replica(place, slow.clock, running=0) as b:
        job = await slow.jobs.accept(order(), slow.charge())
        await until(lambda: slow.work.running, 0.001)
        b.jobs._renew_at = b.clock.seconds = b.clock.seconds + 40
        await b.jobs.poll()
        assert (await b.present(job)).state == "queued"
        slow.work.gate.set()
        await until(lambda: not slow.work.running, 0.001)
        assert (await slow.ended(job)).state == "done"
        assert slow.work.began == 2
        assert await b.used() == 5


async def test_document_fails_without_charge_after_several_killed_replicas(place: Place) -> None:
    clock = Clock()
    job = None
    for _ in range(3):
        async with replica(place, clock) as b:
            job = job or await b.jobs.accept(order(), b.charge())
            await until(lambda work=b.work: work.running, 0.001)
            await b.kill()
        clock.seconds += 40
    async with replica(place, clock) as b:
        assert job is not None
        assert (await b.ended(job)).state == "error"
        assert await b.used() == 0


async def test_round_that_fails_unexpectedly_is_logged_and_followed_by_others(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench(place) as b:
        with monkeypatch.context() as patch:
            patch.setattr(b.jobs, "poll", raiser(ZeroDivisionError()))
            job = await b.jobs.accept(order(), b.charge())
            await until(lambda: "ZeroDivisionError" in caplog.text)
        b.work.gate.set()
        assert (await b.ended(job)).state == "done"


async def test_callers_share_the_places_of_a_replica(place: Place) -> None:
    async with bench(place, running=2) as b:
        greedy = [await b.jobs.accept(GREEDY, b.charge()) for _ in range(4)]
        other = await b.jobs.accept(order(caller="other"), b.charge())
        await until(lambda: b.work.running >= 2, 0.001)
        assert (await b.present(other)).state == "translating"
        states = [(await b.present(job)).state for job in greedy]
        assert sorted(states) == ["queued"] * 3 + ["translating"]


async def test_nothing_begins_while_paused_but_what_a_client_waits_for(place: Place) -> None:
    async with bench(place) as b:
        b.jobs._paused = lambda: True
        b.work.gate.set()
        job = await b.jobs.accept(order(), b.charge())
        await b.jobs.translate(order(), b.charge())
        await b.jobs.poll()
        assert (await b.present(job)).state == "queued"


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd.txt", r"..\..\x.txt", "/etc/x.txt", "\x00\n.txt", "x" * 5000 + ".txt"],
)
async def test_client_file_name_is_safe_to_send_back(place: Place, name: str) -> None:
    async with bench(place) as b:
        b.work.gate.set()
        job = await b.jobs.translate(order(name=name), b.charge())
        assert not {"/", "\\"} & set(job.filename) and job.filename.isprintable()
        assert 4 < len(job.filename) < 200


async def test_result_is_written_when_the_database_is_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.document_jobs.jobs._POLL_SECONDS", 0.01)
    async with bench(place) as b:
        job = await b.jobs.accept(order(), b.charge())
        await until(lambda: b.work.running, 0.001)
        with monkeypatch.context() as patch:
            patch.setattr(Database, "write", raiser(StateFailed()))
            b.work.gate.set()
            await until(lambda: not b.work.running, 0.001)
            await asyncio.sleep(0.02)
        assert (await b.ended(job)).state == "done"
        assert await b.used() == 5


async def test_document_whose_result_is_lost_is_translated_again_beside_others(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.document_jobs.jobs._WRITE_ATTEMPTS", 1)
    async with bench(place) as b:
        job = await b.jobs.accept(order(), b.charge())
        await until(lambda: b.work.running, 0.001)
        with monkeypatch.context() as patch:
            patch.setattr(Database, "write", raiser(StateFailed()))
            b.work.gate.set()
            await until(lambda: not b.work.running, 0.001)
            await until(lambda: not b.jobs._running, 0.001)
        b.work.gate.clear()
        await b.jobs.accept(order(), b.charge())
        await until(lambda: b.work.running, 0.001)
        await b.passes(40)
        await until(lambda: b.work.began == 3, 0.001)
        b.work.gate.set()
        assert (await b.ended(job)).state == "done"


async def test_refused_document_is_not_charged(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(place) as b:
        with monkeypatch.context() as patch, pytest.raises(StateFailed):
            patch.setattr(Database, "write", raiser(StateFailed()))
            await b.jobs.accept(order(b"x" * 60), b.charge())
        await b.done(content=b"x" * 60)
        assert await b.used() == 60


async def test_documents_being_read_count_towards_the_limit_until_cancelled(place: Place) -> None:
    async with bench(place, waiting=3) as b:
        gate = asyncio.Event()
        begun: list[DocumentOrder] = []
        at_once = b.work.open

        async def open_slowly(order: DocumentOrder) -> Any:
            begun.append(order)
            await gate.wait()
            return await at_once(order)

        b.work.open = open_slowly  # type: ignore[method-assign]
        uploads = [asyncio.create_task(b.jobs.translate(order(), b.charge())) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(DocumentsFull):
            await b.jobs.accept(order(), b.charge())
        await until(lambda: len(begun) == 3)
        with pytest.raises(DocumentsFull):
            await b.jobs.accept(order(), b.charge())
        await cancelled(*uploads[:2])
        gate.set()
        assert (await b.done()).state == "done"
        assert (await uploads[2]).state == "done"
        assert await b.used() == 10


async def done_at(b: Bench, caller: str, seconds: float) -> DocumentJob:
    b.clock.seconds = seconds
    return await b.done(caller=caller)


@pytest.mark.parametrize("limits", [{"kept_bytes": 20}, {"kept": 4}])
@pytest.mark.parametrize(
    "callers",
    [("poor", "greedy", "greedy", "greedy"), ("poor", "greedy", "greedy", "third", "fourth")],
)
async def test_oldest_translation_of_the_caller_with_most_makes_room(
    place: Place, limits: dict[str, int], callers: tuple[str, ...]
) -> None:
    async with bench(place, **limits) as b:
        made = [await done_at(b, caller, at) for at, caller in enumerate(callers)]
        evicted = made.pop(1)
        for kept in made:
            assert (await b.present(kept)).state == "done"
        with pytest.raises(DocumentNotFound):
            await b.present(evicted)
