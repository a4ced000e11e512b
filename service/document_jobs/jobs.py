"""Background jobs that translate documents and keep the results until they are fetched.

DeepL's dialect hands out a job to poll; LibreTranslate's waits for its end. Jobs are rows of the
stored state: once accepted, they survive the process, and every replica answers for them and takes
part in translating them. Limits bound the running and waiting jobs, their durations and the bytes
kept. Used on the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath

from service.catalogue.errors import NotReady, UnknownLanguage, UnknownModel, UnsupportedPair
from service.document_jobs.queue import ATTEMPTS, LEASE_SECONDS, Claim, DocumentQueue, NewDocument
from service.document_jobs.types import (
    DocumentJob,
    DocumentJobError,
    DocumentLimits,
    DocumentNotFound,
    DocumentTooLarge,
)
from service.document_jobs.work import (
    DocumentOrder,
    DocumentWork,
    OpenedDocument,
    instructions_of,
    order_of,
)
from service.documents.types import DocumentError
from service.engine.errors import EngineError, EngineStopped
from service.state.database import Database
from service.state.errors import StateError, StateFailed
from service.state.usage import Booking
from service.text.errors import TranslationError
from service.translation.tasks import deadline

__all__ = ["DocumentJob", "DocumentJobs", "DocumentLimits", "DocumentOrder"]

logger = logging.getLogger(__name__)

_POLL_SECONDS = 1.0
"""Time until a job is noticed that another replica has queued."""
_RENEW_SECONDS = 5.0
_LATE_SECONDS = 15.0
"""A round that is later than this says nothing about other replicas, which may be as late."""
_CHECK_SECONDS = 30.0
_WRITE_ATTEMPTS = 10
"""How often a result is written, a second apart, while the database is away."""
_PIECE_BYTES = 64 * 1024
_LONGEST_NAME = 120
_UNEXPECTED = "internal error; the server's log has it"

_EXPECTED = (DocumentJobError, DocumentError, StateError, TranslationError, EngineError)
"""Errors that end a job and are no defect of the service."""

_ELSEWHERE = (NotReady, EngineStopped, UnknownLanguage, UnknownModel, UnsupportedPair)
"""Errors of this replica, or of its present models; another attempt may succeed. The replica that
accepted the document knew its languages and its model."""

Charge = Callable[[int], AbstractAsyncContextManager[Booking]]
"""Reserves so many characters of the caller of a job, until the booking inside is written."""


class DocumentJobs:
    """Bounded collection of document jobs; used between ``start`` and ``close``."""

    def __init__(
        self,
        work: DocumentWork,
        database: Database,
        limits: DocumentLimits | None = None,
        clock: Callable[[], float] = time.time,
        paused: Callable[[], bool] = lambda: False,
    ) -> None:
        """No background job begins while ``paused``."""
        self.limits = limits or DocumentLimits()
        self._work = work
        self._queue = DocumentQueue(database, self.limits, clock)
        self._clock = clock
        self._paused = paused
        self._unopened: list[tuple[str | None, int]] = []
        """Callers and sizes of documents that are being read, or wait to be read."""
        self._awaited: dict[str, asyncio.Future[DocumentJob]] = {}
        self._running: dict[Claim, asyncio.Task[None]] = {}
        self._progress: dict[Claim, float] = {}
        self._renew_at = 0.0
        self._expire_at = 0.0
        self._queued = asyncio.Event()
        self._polling: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to translate queued jobs and to remove old ones."""
        self._renew_at = self._expire_at = self._clock()
        self._polling = asyncio.create_task(self._poll_forever())

    async def close(self) -> None:
        """Stop translating; unfinished jobs wait for another replica, or the next start."""
        tasks = [*self._running.values(), *([self._polling] if self._polling else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(StateFailed):
            await self._queue.hand_back()

    async def accept(self, order: DocumentOrder, charge: Charge) -> DocumentJob:
        """Charge a caller for a document and queue its translation.

        Raises ``DocumentTooLarge``, ``DocumentsFull``, and what ``DocumentWork.open``, ``charge``
        and the stored state raise. A later error is the job's ``error``, and the charge is taken
        back.
        """
        return await self._accept(_new_id(), order, charge, linked=False)

    async def translate(self, order: DocumentOrder, charge: Charge) -> DocumentJob:
        """Translate a document and wait for its end; cancellation stops the work.

        Raises what ``accept`` raises, and any error of the translation.
        """
        identifier = _new_id()
        ended: asyncio.Future[DocumentJob] = asyncio.get_running_loop().create_future()
        self._awaited[identifier] = ended
        try:
            await self._accept(identifier, order, charge, linked=True)
            while not ended.done():
                await asyncio.wait([ended], timeout=_CHECK_SECONDS)
                if not ended.done():
                    # While the database was away, another replica may have removed the job, or its
                    # end may have been written without an answer.
                    present = await self._queue.find_linked(identifier)
                    if not present.unfinished:
                        return present
            return ended.result()
        except asyncio.CancelledError:
            for claim, task in self._running.items():
                if claim.id == identifier:
                    task.cancel()
            raise
        finally:
            # The next poll removes the job of a request that was cancelled.
            del self._awaited[identifier]

    async def status(self, identifier: str, key: str, scope: str = "") -> DocumentJob:
        """The job of this id; raises ``DocumentNotFound``, also for a wrong key or scope."""
        return await self._queue.find(identifier, key, scope)

    async def result(self, name: str) -> tuple[DocumentJob, bytes]:
        """A linked job by the first part of ``name``, and its translation; raises
        ``DocumentNotFound`` unless it is done."""
        job = await self._queue.find_linked(name.partition(".")[0])
        if job.state != "done":
            raise DocumentNotFound
        return job, (await self._queue.content(job.id))[1]

    def seconds_remaining(self, job: DocumentJob) -> int | None:
        """Estimated time to completion; ``None`` before the first texts are translated."""
        if job.state != "translating" or not job.progress:
            return None
        spent = max(0.0, self._clock() - job.changed)
        return math.ceil(spent * (1 - job.progress) / job.progress)

    async def fetch_once(self, job: DocumentJob) -> AsyncIterator[bytes]:
        """The translation of a finished job, in pieces; it is removed with the last piece.

        An incomplete fetch can be repeated. Raises ``DocumentNotFound``.
        """
        _, content = await self._queue.content(job.id)
        return self._pieces(job, content)

    async def _pieces(self, job: DocumentJob, content: bytes) -> AsyncIterator[bytes]:
        last = max(0, len(content) - 1) // _PIECE_BYTES * _PIECE_BYTES
        for begin in range(0, last, _PIECE_BYTES):
            yield content[begin : begin + _PIECE_BYTES]
        # Removed before the last piece is sent, so that a complete fetch cannot be repeated.
        await self._queue.remove(job.id)
        yield content[last:]

    async def _accept(
        self, identifier: str, order: DocumentOrder, charge: Charge, *, linked: bool
    ) -> DocumentJob:
        if len(order.content) > self.limits.document_bytes:
            raise DocumentTooLarge(self.limits.document_bytes)
        opened = await self._opened(order)
        new = NewDocument(
            id=identifier,
            # Upper case as DeepL's, which its clients' tests expect.
            key=secrets.token_hex(32).upper(),
            caller=order.origin.caller or None,
            filename=_without_path(order.filename),
            media_type=opened.document.media_type,
            size=opened.document.size,
            scope=order.origin.scope,
            linked=linked,
            # A glossary may have thousands of terms.
            instructions=await asyncio.to_thread(instructions_of, order),
            content=order.content,
        )
        async with charge(opened.document.characters) as booking:
            # Other documents may have been accepted while the file was read.
            job = await self._queue.put(new, booking, tuple(self._unopened))
        self._queued.set()
        return replace(job, key=new.key)

    async def _opened(self, order: DocumentOrder) -> OpenedDocument:
        waiting = order.origin.caller or None, len(order.content)
        others = tuple(self._unopened)
        # Counted before the database is asked, so that documents that come meanwhile see it.
        self._unopened.append(waiting)
        try:
            await self._queue.check_room(*waiting, others)
            return await self._work.open(order)
        finally:
            self._unopened.remove(waiting)

    async def _poll_forever(self) -> None:
        while True:
            try:
                await self.poll()
            except StateFailed:
                # The database has logged why it is away.
                pass
            # One failed round must not end the translation of documents.
            except Exception:
                logger.exception("queued documents could not be begun; another attempt follows")
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_SECONDS):
                    await self._queued.wait()
            self._queued.clear()

    async def poll(self) -> None:
        """Renew leases, remove what is old, and begin queued jobs; runs every second."""
        now = self._clock()
        if now >= self._renew_at:
            leased = {claim.id for claim in self._running} | self._awaited.keys()
            if leased:
                progress, self._progress = self._progress, {}
                await self._queue.renew(leased, progress)
            if now > self._renew_at + _LATE_SECONDS:
                # After the database was away, the other replicas renew their leases first.
                self._expire_at = now + LEASE_SECONDS
            if now >= self._expire_at:
                await self._queue.expire(self._awaited)
            self._renew_at = now + _RENEW_SECONDS
        free = self.limits.running - len(self._running)
        for claim in await self._queue.claim(free, linked_only=self._paused()):
            task = self._running[claim] = asyncio.create_task(self._run(claim))
            task.add_done_callback(partial(self._ended, claim))

    def _ended(self, claim: Claim, _: asyncio.Task[None]) -> None:
        del self._running[claim]
        self._progress.pop(claim, None)
        self._queued.set()

    async def _run(self, claim: Claim) -> None:
        """One attempt at a job; its error is stored in the job, or raised where it is awaited."""
        try:
            job = await self._finish(claim, await self._translate(claim))
        except DocumentNotFound:
            # Removed meanwhile, or another replica has begun it after the lease ended.
            return
        # Any other error is stored in the job, whose status reports it.
        except Exception as error:
            expected = isinstance(error, _EXPECTED)
            again = isinstance(error, _ELSEWHERE) and claim.attempt < ATTEMPTS
            if not expected:
                logger.exception("a document failed unexpectedly")
            ended = self._awaited.get(claim.id)
            # If the database is away, the job is begun again when its lease has ended.
            with suppress(StateFailed):
                if ended is None and again:
                    await self._queue.put_back(claim)
                elif ended is None and not isinstance(error, StateFailed):
                    await self._queue.fail(claim, str(error) if expected else _UNEXPECTED)
                elif ended is not None:
                    await self._queue.remove(claim.id)
            if ended is not None and not ended.done():
                ended.set_exception(error)
        else:
            ended = self._awaited.get(claim.id)
            if ended is not None and not ended.done():
                ended.set_result(job)

    async def _translate(self, claim: Claim) -> bytes:
        def report_progress(progress: float) -> None:
            self._progress[claim] = progress

        instructions, content = await self._queue.content(claim.id)
        async with deadline(self.limits.seconds):
            order = await asyncio.to_thread(order_of, instructions, content)
            opened = await self._work.open(order)
            return await self._work.translate(opened, report_progress)

    async def _finish(self, claim: Claim, translated: bytes) -> DocumentJob:
        content_type = await asyncio.to_thread(_content_type, claim.media_type, translated)
        for _ in range(_WRITE_ATTEMPTS - 1):
            with suppress(StateFailed):
                return await self._queue.finish(claim, content_type, translated)
            await asyncio.sleep(_POLL_SECONDS)
        return await self._queue.finish(claim, content_type, translated)


def _new_id() -> str:
    return secrets.token_hex(16).upper()


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
