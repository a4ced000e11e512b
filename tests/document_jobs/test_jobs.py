"""Tests of document jobs: limits, cancellation, charges and removal."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from service.api.access import Access, AccessPolicy, Caller
from service.catalogue.errors import NotReady
from service.document_jobs.jobs import Charge, DocumentJob, DocumentJobs, DocumentLimits
from service.document_jobs.types import DocumentNotFound, DocumentsFull, DocumentTooLarge
from service.document_jobs.work import DocumentOrder, DocumentWork
from service.engine.types import Origin
from service.state.database import Database
from service.state.errors import QuotaExceeded, StateFailed
from service.state.keys import KeyStore
from service.state.rates import RateLimits
from service.state.usage import UsageLedger
from service.text.types import LanguagePair
from service.translation.errors import DeadlineExceeded
from tests.support.waiting import cancelled, until

CALLER = Caller("client", "key client", characters_per_month=100)


@dataclass
class Work:
    """Stub that upper-cases files once the gate is open."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)
    running: int = 0
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
    clock: Clock

    def charge(self, caller: Caller = CALLER) -> Charge:
        return partial(self.access.charge, caller, documents=1)

    async def ended(self, job: DocumentJob) -> DocumentJob:
        async with asyncio.timeout(5):
            await until(lambda: not job.unfinished)
        return job

    async def done(self, **wanted: Any) -> DocumentJob:
        """A job that is let through and has ended."""
        self.work.gate.set()
        return await self.ended(await self.jobs.accept(order(**wanted), self.charge()))

    async def used(self) -> int:
        return (await self.access.usage(CALLER)).characters


@asynccontextmanager
async def bench(
    directory: Path, sweep_seconds: float = 60.0, **limits: Any
) -> AsyncIterator[Bench]:
    async with Database(None) as database:
        usage = UsageLedger(database)
        access = Access(AccessPolicy(), KeyStore(database), usage, RateLimits())
        work, clock = Work(), Clock()
        jobs = DocumentJobs(
            cast(DocumentWork, work),
            directory,
            DocumentLimits(**limits),
            clock,
            sweep_seconds,
        )
        await jobs.start()
        try:
            yield Bench(jobs, work, access, clock)
        finally:
            await jobs.close()


def order(
    content: bytes = b"hallo", name: str = "a.txt", caller: str | None = None
) -> DocumentOrder:
    return DocumentOrder(name, content, "en", "de", origin=Origin("bulk", caller=caller or ""))


GREEDY = order(caller="greedy")


async def test_a_job_goes_through_its_states(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        job = await b.jobs.accept(order(), b.charge())
        states = [job.state]
        await until(lambda: b.work.running, 0)
        states.append(job.state)
        assert states == ["queued", "translating"]
        b.clock.seconds += 3
        assert b.jobs.seconds_remaining(job) == 3
        b.work.gate.set()
        assert (await b.ended(job)).state == "done"
        assert b.jobs.seconds_remaining(job) is None
        assert b.jobs.status(job.id, job.key) is job
        assert job.path.read_bytes() == b"HALLO"
        assert await b.used() == 5


async def test_running_jobs_are_limited_and_further_jobs_wait(tmp_path: Path) -> None:
    async with bench(tmp_path, running=2) as b:
        jobs = [await b.jobs.accept(order(), b.charge()) for _ in range(5)]
        await until(lambda: b.work.running >= 2, 0)
        assert sorted(job.state for job in jobs) == ["queued"] * 3 + ["translating"] * 2
        b.work.gate.set()
        assert {(await b.ended(job)).state for job in jobs} == {"done"}
        assert b.work.most == 2


@pytest.mark.parametrize("limits", [{"waiting": 2}, {"waiting_bytes": 12}, {"kept_bytes": 12}])
async def test_full_queue_refuses_documents_without_charge(
    tmp_path: Path, limits: dict[str, int]
) -> None:
    async with bench(tmp_path, **limits) as b:
        jobs = [await b.jobs.accept(order(), b.charge()) for _ in range(2)]
        with pytest.raises(DocumentsFull):
            await b.jobs.accept(order(), b.charge())
        b.work.gate.set()
        for job in jobs:
            await b.jobs.forget(await b.ended(job))
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
    ],
)
async def test_documents_beyond_a_limit_are_refused(
    tmp_path: Path,
    limits: dict[str, int],
    accepted: list[DocumentOrder],
    refused: DocumentOrder,
    error: type[Exception],
) -> None:
    async with bench(tmp_path, **limits) as b:
        b.work.unpacked = 3
        jobs = [await b.jobs.accept(each, b.charge()) for each in accepted]
        with pytest.raises(error):
            await b.jobs.accept(refused, b.charge())
        assert all(b.jobs.status(job.id, job.key) is job for job in jobs)
        if GREEDY in accepted:
            await b.jobs.accept(order(caller="other"), b.charge())


async def test_failed_job_reports_its_error_and_is_not_charged(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        b.work.failure = NotReady("the models are being loaded")
        job = await b.done()
        assert (job.state, job.error) == ("error", b.work.failure)
        assert b.jobs.status(job.id, job.key) is job
        with pytest.raises(DocumentNotFound):
            b.jobs.result(job.name)
        assert await b.used() == 0


async def test_translation_beyond_the_time_limit_fails(tmp_path: Path) -> None:
    async with bench(tmp_path, seconds=0.01) as b:
        job = await b.ended(await b.jobs.accept(order(), b.charge()))
        assert isinstance(job.error, DeadlineExceeded)


async def test_translate_returns_the_result_or_raises_the_error(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        b.work.gate.set()
        job = await b.jobs.translate(order(name="Über uns.TXT"), b.charge())
        assert (job.state, job.filename) == ("done", "Über uns.txt")
        assert b.jobs.result(f"{job.id}.Über uns.txt") is job
        b.work.failure = NotReady("gone")
        with pytest.raises(NotReady):
            await b.jobs.translate(order(), b.charge())


async def test_cancelling_translate_stops_the_work(tmp_path: Path) -> None:
    async with bench(tmp_path, running=1) as b:
        waiting = asyncio.create_task(b.jobs.translate(order(), b.charge()))
        await until(lambda: b.work.running, 0)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        assert b.work.running == 0
        b.work.gate.set()
        await b.jobs.translate(order(), b.charge())
        assert await b.used() == 5


async def test_translations_are_removed_after_kept_seconds(tmp_path: Path) -> None:
    async with bench(tmp_path, kept_seconds=60) as b:
        old = await b.jobs.accept(order(), b.charge())
        b.work.gate.set()
        await b.ended(old)
        b.clock.seconds += 59
        late = await b.done()
        await b.jobs.sweep()
        assert old.path.exists()
        b.clock.seconds += 1
        await b.jobs.sweep()
        assert not old.path.exists()
        assert late.path.exists()
        with pytest.raises(DocumentNotFound):
            b.jobs.status(old.id, old.key)


async def test_translation_is_removed_with_its_last_piece(tmp_path: Path) -> None:
    content = bytes(range(256)) * 600
    async with bench(tmp_path) as b:
        b.work.gate.set()
        job = await b.jobs.translate(
            order(content), b.charge(replace(CALLER, characters_per_month=0))
        )
        first = await b.jobs.fetch_once(job)
        begun = await anext(first)
        assert b.jobs.result(job.name) is job
        second = [piece async for piece in await b.jobs.fetch_once(job)]
        assert b"".join(second) == content.upper()
        with pytest.raises(DocumentNotFound):
            b.jobs.result(job.name)
        with pytest.raises(DocumentNotFound):
            await b.jobs.fetch_once(job)
        assert not job.path.exists()
        assert begun + b"".join([piece async for piece in first]) == content.upper()


async def test_files_of_crashed_processes_are_removed_and_those_of_live_ones_kept(
    tmp_path: Path,
) -> None:
    for name, age in (("crashed", 9999), ("alive", 100)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "translation").write_bytes(b"secret")
        then = (tmp_path / name).stat().st_mtime - age
        os.utime(tmp_path / name, (then, then))
    async with bench(tmp_path, kept_seconds=3600):
        assert [path.name for path in tmp_path.iterdir()] == ["alive"]


async def test_close_cancels_jobs_and_removes_files(tmp_path: Path) -> None:
    async with bench(tmp_path, running=1) as b:
        done = await b.done()
        b.work.gate.clear()
        await b.jobs.accept(order(), b.charge())
        await b.jobs.accept(order(), b.charge())
        await b.jobs.close()
        assert not done.path.exists()
        assert b.work.running == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd.txt", r"..\..\x.txt", "/etc/x.txt", "\x00\n.txt", "x" * 5000 + ".txt"],
)
async def test_client_file_name_is_never_used_as_a_path(tmp_path: Path, name: str) -> None:
    async with bench(tmp_path) as b:
        b.work.gate.set()
        job = await b.jobs.translate(order(name=name), b.charge())
        assert job.path.parent.parent == tmp_path
        assert not {"/", "\\"} & set(job.filename) and job.filename.isprintable()
        assert 4 < len(job.filename) < 200


async def test_full_disk_fails_the_job_without_charge_or_partial_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(path: Path, content: bytes) -> None:
        with path.open("wb") as file:
            file.write(content[:2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", half)
    async with bench(tmp_path) as b:
        job = await b.done()
        assert isinstance(job.error, StateFailed)
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]
        assert await b.used() == 0


async def test_stray_files_are_removed_and_externally_removed_translations_not_found(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as b:
        job = await b.done()
        stray = job.path.with_name("stray")
        stray.write_bytes(b"written after cancellation")
        await b.jobs.sweep()
        assert not stray.exists()
        job.path.unlink()
        with pytest.raises(DocumentNotFound):
            b.jobs.result(job.name)


async def test_failed_sweep_is_logged_and_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench(tmp_path, sweep_seconds=0.001) as b:
        swept = 0

        async def sweep() -> None:
            nonlocal swept
            swept += 1
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

        monkeypatch.setattr(b.jobs, "sweep", sweep)
        async with asyncio.timeout(5):
            await until(lambda: swept >= 2)
    assert "old documents cannot be removed: [Errno 13] Permission denied" in caplog.text


async def test_documents_being_read_count_towards_the_limit_until_cancelled(tmp_path: Path) -> None:
    async with bench(tmp_path, waiting=3) as b:
        gate = asyncio.Event()
        at_once = b.work.open

        async def open_slowly(order: DocumentOrder) -> Any:
            await gate.wait()
            return await at_once(order)

        b.work.open = open_slowly  # type: ignore[method-assign]
        uploads = [asyncio.create_task(b.jobs.translate(order(), b.charge())) for _ in range(3)]
        await asyncio.sleep(0)
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


@pytest.mark.parametrize(
    "callers",
    [("poor", "greedy", "greedy", "greedy"), ("poor", "greedy", "greedy", "third", "fourth")],
)
async def test_oldest_translation_of_the_caller_with_most_bytes_makes_room(
    tmp_path: Path, callers: tuple[str, ...]
) -> None:
    async with bench(tmp_path, kept_bytes=20) as b:
        made = [await done_at(b, caller, at) for at, caller in enumerate(callers)]
        evicted = made.pop(1)
        for kept in made:
            assert b.jobs.status(kept.id, kept.key) is kept
        with pytest.raises(DocumentNotFound):
            b.jobs.status(evicted.id, evicted.key)
