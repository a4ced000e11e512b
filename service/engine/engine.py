"""The engine's loop, and the only place in the service where threads meet.

One thread owns the scheduler and the backend. The event loop speaks to it through
an inbox of commands and hears back through futures; they share no other state.
Every way out of the loop settles every future, including the ways that are bugs.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import assert_never

from service.engine.errors import BackendFailed, EngineError, EngineStopped
from service.engine.observer import EngineObserver, SilentObserver
from service.engine.reports import Reports
from service.engine.scheduler import Plan, Scheduler, Sequence
from service.engine.types import Decoded, DecodingOptions, Durations, Priority
from service.runtime.backend import Backend, Candidates, EncodeBatch, StepBatch
from service.thread_priority import lower_thread_priority

logger = logging.getLogger(__name__)

_SILENT = SilentObserver()


@dataclass(frozen=True, slots=True)
class _Add:
    sequence: Sequence


@dataclass(frozen=True, slots=True)
class _Abort:
    sequence_id: int


@dataclass(frozen=True, slots=True)
class _Hold:
    pass


@dataclass(frozen=True, slots=True)
class _Release:
    pass


@dataclass(frozen=True, slots=True)
class _Stop:
    pass


_Command = _Add | _Abort | _Hold | _Release | _Stop
_Outcome = Decoded | EngineError


class Engine:
    """Decodes many sentences at once with one backend, which it owns and closes."""

    def __init__(
        self, backend: Backend, scheduler: Scheduler, observer: EngineObserver = _SILENT
    ) -> None:
        self._backend = backend
        self._scheduler = scheduler
        self._reports = Reports(observer, scheduler)
        self._inbox: queue.SimpleQueue[_Command] = queue.SimpleQueue()
        self._ids = itertools.count()
        self._futures: dict[int, asyncio.Future[Decoded]] = {}
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped = False
        self._holding = 0
        """On the engine's thread: how many wait until all that they have is in the line."""

    # On the event loop.

    @property
    def alive(self) -> bool:
        """Whether a sentence given now would be decoded."""
        return self._thread.is_alive() and not self._stopped

    async def start(self) -> None:
        """Start the engine's thread. An engine belongs to the event loop it was started on."""
        if self._loop is not None or self._stopped:
            raise RuntimeError("an engine starts once")
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    async def decode(
        self,
        source_ids: tuple[int, ...],
        options: DecodingOptions,
        priority: Priority = "interactive",
        request: int = 0,
    ) -> Decoded:
        """Translate one sentence. Cancelling the call removes it from the batch.

        ``source_ids`` ends with ``eos``. Sentences of one ``request`` share its turns in the line.
        Raises an ``EngineError`` if the sentence is refused, if the model fails on it, or if the
        engine stops before it is done.
        """
        if self._stopped or self._loop is None:
            raise EngineStopped("the engine is not running")
        sequence = Sequence(
            next(self._ids), source_ids, options, priority, request, arrived=time.perf_counter()
        )
        future: asyncio.Future[Decoded] = self._loop.create_future()
        self._futures[sequence.id] = future
        self._inbox.put(_Add(sequence))
        try:
            return await future
        finally:
            del self._futures[sequence.id]
            if future.cancelled() or not future.done():
                self._inbox.put(_Abort(sequence.id))
            else:
                # A call cancelled just after it failed never looks; asyncio would complain.
                future.exception()

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """Nothing is decoded meanwhile, so that all who are given together enter the line before
        the first of them gets a slot: their company is then always the same."""
        self._inbox.put(_Hold())
        try:
            yield
        finally:
            self._inbox.put(_Release())

    async def close(self) -> None:
        """Stop between two steps, and fail everyone who still waits with ``EngineStopped``."""
        started, self._stopped = self._loop is not None, True
        self._inbox.put(_Stop())
        if started:
            await asyncio.to_thread(self._thread.join)
            self._fail_the_rest()
        else:
            self._backend.close()

    def _fail_the_rest(self) -> None:
        for future in self._futures.values():
            if not future.done():
                future.set_exception(EngineStopped("the engine has stopped"))

    def _settle(self, outcomes: Collection[tuple[Sequence, _Outcome]]) -> None:
        for sequence, outcome in outcomes:
            future = self._futures.get(sequence.id)
            if future is None or future.done():
                continue
            if isinstance(outcome, EngineError):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

    # On the engine's thread.

    def _run(self) -> None:
        lower_thread_priority()
        try:
            self._reports.use(self._backend.cache_use())
            while self._take_commands():
                if self._scheduler.has_work:
                    with self._reports.working():
                        self._iterate()
                    self._reports.use(self._backend.cache_use())
        except Exception:
            logger.exception("the engine died")
            self._reports.died()
        finally:
            # Whoever calls from here on is refused; whoever called before is told.
            self._stopped = True
            self._tell(self._fail_the_rest)
            self._shut_down()

    def _take_commands(self) -> bool:
        """Apply what has arrived; wait for something only when there is nothing else to do."""
        while self._holding or not self._scheduler.has_work or not self._inbox.empty():
            match self._inbox.get():
                case _Stop():
                    return False
                case _Abort(sequence_id):
                    self._cancel(sequence_id)
                case _Add(sequence):
                    self._add(sequence)
                case _Hold():
                    self._holding += 1
                case _Release():
                    self._holding -= 1
                case unknown:
                    assert_never(unknown)
            self._reports.waiting()
        return True

    def _add(self, sequence: Sequence) -> None:
        try:
            self._scheduler.add(sequence)
        except EngineError as error:
            self._deliver([(sequence, error)])

    def _cancel(self, sequence_id: int) -> None:
        if self._scheduler.abort(sequence_id, "cancelled"):
            self._reports.left("cancelled", 1)

    def _iterate(self) -> None:
        plan = self._scheduler.schedule()
        if plan.encode is not None:
            self._reports.joined(plan)
        if not self._admit(plan):
            plan = self._scheduler.reschedule()
        if plan.step is None:
            return
        candidates = self._step(plan.step, plan.sequences)
        if candidates is not None:
            leaving = _timed(self._scheduler.apply(candidates))
            self._reports.ended(leaving)
            self._deliver(leaving)

    def _admit(self, plan: Plan) -> bool:
        for origin, slot in plan.moves:
            self._backend.move(origin, slot)
        return plan.encode is None or self._encode(plan.encode, plan.admitted)

    def _encode(self, batch: EncodeBatch, admitted: list[Sequence]) -> bool:
        """Encode the newcomers. If that fails, they leave and those running do not notice."""
        start = time.perf_counter()
        try:
            self._backend.encode(batch)
        except MemoryError as error:
            self._make_room(admitted, admitted, error)
            return False
        except Exception as error:
            logger.exception("encoding %d sentences failed", len(admitted))
            self._fail(admitted, error)
            return False
        self._reports.encoded(batch, time.perf_counter() - start)
        return True

    def _step(self, batch: StepBatch, sequences: list[Sequence]) -> Candidates | None:
        """Extend every row by one token. If that fails, everyone in the batch leaves."""
        start = time.perf_counter()
        try:
            candidates = self._backend.step(batch)
        except MemoryError as error:
            newest = sorted(sequences, key=lambda sequence: sequence.id)[len(sequences) // 2 :]
            self._make_room(newest, sequences, error)
            return None
        except Exception as error:
            logger.exception("a step of %d sentences failed", len(sequences))
            self._fail(sequences, error)
            return None
        self._reports.stepped(batch, len(sequences), time.perf_counter() - start)
        return candidates

    def _make_room(
        self, leaving: list[Sequence], tried: list[Sequence], error: MemoryError
    ) -> None:
        """Have some start over later; a sentence that finds no room even alone fails."""
        if len(tried) == len(self._scheduler.running) == 1:
            self._fail(tried, error)
            return
        logger.warning("memory is short, %d sentences go back to the line: %s", len(leaving), error)
        self._scheduler.preempt(leaving)
        now = time.perf_counter()
        for sequence in leaving:
            sequence.arrived = now
        self._reports.left("preempted", len(leaving))
        self._reports.waiting()

    def _fail(self, sequences: list[Sequence], error: Exception) -> None:
        failures: list[tuple[Sequence, _Outcome]] = []
        # From the last slot on, so that nobody who leaves is moved first.
        for sequence in reversed(sequences):
            self._scheduler.abort(sequence.id, "failed")
            failure = BackendFailed(
                f"there is no memory for this sentence: {error}"
                if isinstance(error, MemoryError)
                else "the model failed on this batch"
            )
            failure.__cause__ = error
            failures.append((sequence, failure))
        self._reports.left("failed", len(sequences))
        self._deliver(failures)

    def _shut_down(self) -> None:
        try:
            self._backend.close()
        except Exception:
            logger.exception("closing the backend failed")
        abandoned = [*self._scheduler.running, *self._scheduler.waiting]
        in_batch = sum(self._scheduler.abort(sequence.id, "failed") for sequence in abandoned)
        self._reports.left("failed", in_batch)
        self._reports.waiting()
        self._reports.use()

    def _deliver(self, outcomes: Collection[tuple[Sequence, _Outcome]]) -> None:
        if outcomes:
            self._tell(self._settle, outcomes)

    def _tell(self, callback: Callable[..., None], *arguments: object) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            # The event loop closed without closing the engine: nobody is left to listen.
            if not self._loop.is_closed():
                raise
            self._inbox.put(_Stop())


def _timed(leaving: Collection[tuple[Sequence, _Outcome]]) -> list[tuple[Sequence, _Outcome]]:
    """Each outcome with how long its sentence has waited and been decoded."""
    now = time.perf_counter()
    return [
        (
            sequence,
            replace(
                outcome,
                durations=Durations(sequence.entered - sequence.arrived, now - sequence.entered),
            )
            if isinstance(outcome, Decoded)
            else outcome,
        )
        for sequence, outcome in leaving
    ]
