"""Background jobs that translate documents and keep the results until they are fetched.

DeepL's dialect hands out a job to poll; LibreTranslate's waits for its end. Jobs live in this
process only. Results are files under random names, never under clients' names. Limits bound the
running and waiting jobs, their durations and the bytes kept. Used on the event loop.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import math
import secrets
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from service.document_jobs.types import (
    DocumentJob,
    DocumentJobError,
    DocumentLimits,
    DocumentNotFound,
    DocumentsFull,
    DocumentTooLarge,
    State,
)
from service.document_jobs.work import DocumentOrder, DocumentWork, OpenedDocument
from service.documents.types import DocumentError
from service.engine.errors import EngineError
from service.state.errors import StateError, StateFailed
from service.text.errors import TranslationError
from service.threads.fair_turns import FairTurns
from service.translation.tasks import deadline

__all__ = ["DocumentJob", "DocumentJobs", "DocumentLimits", "DocumentOrder"]

logger = logging.getLogger(__name__)

_SWEEP_SECONDS = 60.0
_PIECE_BYTES = 64 * 1024
_LONGEST_NAME = 120


_EXPECTED = (DocumentJobError, DocumentError, StateError, TranslationError, EngineError)
"""Errors that end a job and are no defect of the service."""

Charge = Callable[[int], AbstractAsyncContextManager[object]]
"""Charges the caller of a job for so many characters, unless the work inside raises."""


class DocumentJobs:
    """Bounded collection of document jobs; used between ``start`` and ``close``."""

    def __init__(
        self,
        work: DocumentWork,
        directory: Path,
        limits: DocumentLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
        sweep_seconds: float = _SWEEP_SECONDS,
    ) -> None:
        """``directory`` is for documents only; several processes may share it."""
        self.limits = limits or DocumentLimits()
        self._work = work
        self._directory = directory / secrets.token_hex(8)
        self._clock = clock
        self._sweep_seconds = sweep_seconds
        self._jobs: dict[str, DocumentJob] = {}
        self._unopened: list[tuple[str | None, int]] = []
        """Callers and sizes of documents that are being read, or wait to be read."""
        self._turns = FairTurns(self.limits.running)
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start to remove old results, including those of crashed processes."""
        await self.sweep()
        self._spawn(self._sweep_forever())

    async def close(self) -> None:
        """Cancel all jobs and remove their files."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._jobs.clear()
        await asyncio.to_thread(shutil.rmtree, self._directory, ignore_errors=True)

    async def accept(self, order: DocumentOrder, charge: Charge) -> DocumentJob:
        """Charge a caller for a document and queue its translation.

        Raises ``DocumentTooLarge``, ``DocumentsFull``, and what ``DocumentWork.open`` and
        ``charge`` raise. A later error is the job's ``error``, and is not charged for.
        """
        job, opened, charged = await self._accepted(order, charge)
        self._spawn(self._run_in_background(job, opened, charged))
        return job

    async def translate(self, order: DocumentOrder, charge: Charge) -> DocumentJob:
        """Translate a document and wait for its end; cancellation stops the work.

        Raises what ``accept`` raises, and any error of the translation.
        """
        job, opened, charged = await self._accepted(order, charge)
        job.linked = True
        await self._run(job, opened, charged)
        return job

    def status(self, identifier: str, key: str, scope: str = "") -> DocumentJob:
        """The job of this id; raises ``DocumentNotFound``, also for a wrong key or scope."""
        job = self._jobs.get(identifier)
        presented = key.encode("utf-8", "replace")
        if (
            job is None
            or not hmac.compare_digest(job.key.encode(), presented)
            or (job.scope, job.linked) != (scope, False)
        ):
            raise DocumentNotFound
        return job

    def result(self, name: str) -> DocumentJob:
        """The linked job by its ``name``, if it is done; raises ``DocumentNotFound``."""
        job = self._jobs.get(name.partition(".")[0])
        # An operator may have removed the file.
        if job is None or not job.linked or job.state != "done" or not job.path.is_file():
            raise DocumentNotFound
        return job

    def seconds_remaining(self, job: DocumentJob) -> int | None:
        """Estimated time to completion; ``None`` before the first texts are translated."""
        if job.state != "translating" or not job.progress:
            return None
        spent = self._clock() - job.changed
        return math.ceil(spent * (1 - job.progress) / job.progress)

    async def fetch_once(self, job: DocumentJob) -> AsyncIterator[bytes]:
        """The translation of a finished job, in pieces; it is removed with the last piece.

        An incomplete fetch can be repeated. Raises ``DocumentNotFound``.
        """
        try:
            file = await asyncio.to_thread(job.path.open, "rb")
        except FileNotFoundError as error:
            raise DocumentNotFound from error
        return self._pieces(job, file)

    async def _pieces(self, job: DocumentJob, file: BinaryIO) -> AsyncIterator[bytes]:
        with file:
            left = job.size
            while piece := await asyncio.to_thread(file.read, _PIECE_BYTES):
                left -= len(piece)
                # Removed before the last piece is sent, so that a complete fetch cannot be
                # repeated.
                if left <= 0:
                    await self.forget(job)
                yield piece
        await self.forget(job)

    async def forget(self, job: DocumentJob) -> None:
        """Remove a job that has ended, and its translation."""
        if self._jobs.pop(job.id, None) is not None:
            await asyncio.to_thread(job.path.unlink, missing_ok=True)

    async def sweep(self) -> None:
        """Remove jobs that ended ``kept_seconds`` ago, and stray files; runs every minute."""
        oldest = self._clock() - self.limits.kept_seconds
        for job in list(self._jobs.values()):
            if not job.unfinished and job.changed <= oldest:
                await self.forget(job)
        # A live process has removed its own files long before this age.
        age = 2 * self.limits.kept_seconds
        await asyncio.to_thread(_remove_old, self._directory.parent, self._directory, age)
        # Files of cancelled jobs, whose writing thread could not be cancelled.
        for path in await asyncio.to_thread(_files_in, self._directory):
            if path.name not in self._jobs:
                await asyncio.to_thread(path.unlink, missing_ok=True)

    async def _accepted(
        self, order: DocumentOrder, charge: Charge
    ) -> tuple[DocumentJob, OpenedDocument, AsyncExitStack]:
        size = len(order.content)
        if size > self.limits.document_bytes:
            raise DocumentTooLarge(self.limits.document_bytes)
        self._refuse_if_full(order.origin.caller or None, size)
        opened = await self._opened(order)
        # Upper case as DeepL's, which its clients' tests expect.
        identifier = secrets.token_hex(16).upper()
        job = DocumentJob(
            id=identifier,
            key=secrets.token_hex(32).upper(),
            filename=_without_path(order.filename),
            media_type=opened.document.media_type,
            characters=opened.document.characters,
            size=opened.document.size,
            path=self._directory / identifier,
            scope=order.origin.scope,
            caller=order.origin.caller or None,
            changed=self._clock(),
        )
        async with AsyncExitStack() as charged:
            await charged.enter_async_context(charge(job.characters))
            # Other documents may have been accepted while the file was read.
            evicted = self._refuse_if_full(job.caller, job.size)
            self._jobs[job.id] = job
            for each in evicted:
                del self._jobs[each.id]
                self._spawn(asyncio.to_thread(each.path.unlink, missing_ok=True))
            return job, opened, charged.pop_all()

    async def _opened(self, order: DocumentOrder) -> OpenedDocument:
        waiting = order.origin.caller or None, len(order.content)
        self._unopened.append(waiting)
        try:
            return await self._work.open(order)
        finally:
            self._unopened.remove(waiting)

    def _refuse_if_full(self, caller: str | None, size: int) -> list[DocumentJob]:
        """The translations to remove for a document; raises ``DocumentsFull``."""
        self._refuse_if_too_many_wait(caller, size)
        return self._oldest_in_the_way(caller, size)

    def _refuse_if_too_many_wait(self, caller: str | None, size: int) -> None:
        unfinished = [(job.caller, job.size) for job in self._jobs.values() if job.unfinished]
        waiting = unfinished + self._unopened
        own = [each for each in waiting if each[0] == caller]
        for documents, share in ((waiting, 1.0), (own, self._share(caller))):
            used = sum(size for _, size in documents)
            if (
                len(documents) >= self.limits.waiting * share
                or used + size > self.limits.waiting_bytes * share
            ):
                raise DocumentsFull

    def _oldest_in_the_way(self, caller: str | None, size: int) -> list[DocumentJob]:
        """Translations to remove, so that ``size`` bytes of ``caller`` fit.

        The caller's own above its share, otherwise those of the caller with most bytes; the oldest
        first. Raises ``DocumentsFull`` if unfinished documents take the space.
        """
        kept = list(self._jobs.values())
        evicted: list[DocumentJob] = []
        own_limit = self.limits.kept_bytes * self._share(caller)
        while True:
            used = Counter[str | None]()
            for job in kept:
                used[job.caller] += job.size
            finished = [job for job in kept if job.size and not job.unfinished]
            if used[caller] + size > own_limit:
                finished = [job for job in finished if job.caller == caller]
            elif used.total() + size <= self.limits.kept_bytes:
                return evicted
            if not finished:
                raise DocumentsFull
            most = max(used[job.caller] for job in finished)
            candidates = [job for job in finished if used[job.caller] == most]
            oldest = min(candidates, key=lambda job: job.changed)
            kept.remove(oldest)
            evicted.append(oldest)

    def _share(self, caller: str | None) -> float:
        """The share of the limits for one caller; an unknown caller may use all."""
        return 1.0 if caller is None else self.limits.share

    async def _run_in_background(
        self, job: DocumentJob, opened: OpenedDocument, charged: AsyncExitStack
    ) -> None:
        try:
            await self._run(job, opened, charged)
        # Any error is stored in the job, whose status reports it.
        except Exception as error:
            job.error, job.size = error, 0
            self._enter(job, "error")
            self._jobs[job.id] = job
            if not isinstance(error, _EXPECTED):
                logger.exception("a document failed unexpectedly")

    async def _run(self, job: DocumentJob, opened: OpenedDocument, charged: AsyncExitStack) -> None:
        """Translate a document once it may run; a failed job is removed."""

        def report_progress(progress: float) -> None:
            job.progress = progress

        try:
            async with charged, self._turns.turn(job.caller):
                self._enter(job, "translating")
                async with deadline(self.limits.seconds):
                    translated = await self._work.translate(opened, report_progress)
                await self._keep(job, translated)
            job.size = len(translated)
            self._enter(job, "done")
        except BaseException:
            self._jobs.pop(job.id, None)
            raise

    async def _keep(self, job: DocumentJob, translated: bytes) -> None:
        try:
            await asyncio.to_thread(_write, job.path, translated)
            job.content_type = await asyncio.to_thread(_content_type, job.media_type, translated)
        except OSError as error:
            logger.error("%s: %s", self._directory, error.strerror or error)
            raise StateFailed from error

    def _enter(self, job: DocumentJob, state: State) -> None:
        job.state, job.changed = state, self._clock()

    async def _sweep_forever(self) -> None:
        while True:
            await asyncio.sleep(self._sweep_seconds)
            try:
                await self.sweep()
            except OSError as error:
                logger.error("old documents cannot be removed: %s", error)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _without_path(filename: str) -> str:
    """A name that is safe to send back: its last part, printable, its extension kept."""
    last = PurePosixPath(filename.strip().replace("\\", "/"))
    printable = "".join(character for character in last.stem if character.isprintable())
    return (printable[:_LONGEST_NAME] or "document") + last.suffix.lower()


def _content_type(media_type: str, content: bytes) -> str:
    """The ``Content-Type`` of a translation.

    Only UTF-8 text gets a charset. A byte order mark or a declaration in the document names the
    other encodings, if anything does.
    """
    if not media_type.startswith("text/"):
        return media_type
    try:
        content.decode()
    except UnicodeDecodeError:
        return media_type
    # UTF-16 without a byte order mark may be valid UTF-8.
    return media_type if b"\0" in content else f"{media_type}; charset=utf-8"


def _write(path: Path, content: bytes) -> None:
    """Write a file; raises ``OSError`` and leaves no partial file."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        path.write_bytes(content)
    except OSError:
        # A partial file would keep a full disk full.
        path.unlink(missing_ok=True)
        raise


def _files_in(directory: Path) -> list[Path]:
    with suppress(FileNotFoundError):
        return list(directory.iterdir())
    return []


def _remove_old(directory: Path, own: Path, seconds: float) -> None:
    """Remove directories, except ``own``, that were not modified for ``seconds``."""
    # Other processes may remove the same directories.
    with suppress(FileNotFoundError):
        for each in directory.iterdir():
            if each != own and each.is_dir() and time.time() - each.stat().st_mtime > seconds:
                shutil.rmtree(each, ignore_errors=True)
