"""Continuous-batching engine: one thread runs scheduler and backend, the event loop awaits futures.

The engine thread owns the scheduler and the backend. The event loop sends commands through an
inbox and receives results through futures. The two threads share no other state. Every exit from
the loop, including an unexpected exception, resolves all pending futures.
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
from typing import Any, assert_never

from service.engine.errors import BackendFailed, EngineError, EngineStopped
from service.engine.iteration import NO_CACHE, Departure, Finished, Iteration, LeaveReason, Observe
from service.engine.scheduler import BatchScheduler, Plan, Sequence
from service.engine.types import (
    DEFAULT_ORIGIN,
    Decoded,
    DecodingOptions,
    Durations,
    FinishReason,
    Origin,
)
from service.runtime.backend import (
    Admission,
    Backend,
    BeamBackend,
    CacheUse,
    Candidates,
    DeviceLost,
    EncodeBatch,
    Launch,
    Ranked,
    StepBatch,
)
from service.threads.thread_priority import lower_thread_priority

logger = logging.getLogger(__name__)

_CHECK_SECONDS = 1.0
"""Time between two checks of an idle device."""
_never_closed: list[Any] = []
"""Backends of lost devices, or that cannot be closed. ONNX Runtime ends the process if it cannot
free captured graphs."""


def device_was_lost() -> bool:
    """Whether the process has to end by ``os._exit``: a regular exit would free such backends."""
    return bool(_never_closed)


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
        self,
        backend: Backend | BeamBackend,
        scheduler: BatchScheduler,
        observe: Observe = lambda _: None,
        *,
        device: str = "cpu",
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        """``observe`` gets one record per iteration, see ``service.engine.iteration``.

        A ``BeamBackend`` needs a ``BeamScheduler``, whose plans fit it. ``device`` as metrics name
        it. ``prepare`` is called on the engine thread before anything is decoded.
        """
        self.device = device
        self.lost = False
        """Whether the engine has ended because its device cannot be used any more."""
        self._prepare = prepare
        self._prepared = asyncio.Event()
        self._backend: Any = backend
        self._scheduler = scheduler
        self._observe = observe
        self._iteration = Iteration()
        """Record of the iteration in progress. Only the engine thread uses it."""
        self._inbox: queue.SimpleQueue[_Command] = queue.SimpleQueue()
        self._ids = itertools.count()
        self.load = 0.0
        """Work of the sentences that ``decode`` calls await. Only the event loop uses it."""
        self._futures: dict[int, asyncio.Future[Decoded]] = {}
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped = False
        self._holding = 0
        """Number of open ``gathering`` blocks. Only the engine thread uses it."""

    # The following methods run on the event loop.

    @property
    def alive(self) -> bool:
        """Whether the engine accepts and decodes sentences."""
        return self._thread.is_alive() and not self._stopped and not self.lost

    def accepts(self, options: DecodingOptions) -> bool:
        """Whether the engine can decode a sentence with these options."""
        return self._scheduler.accepts(options)

    async def start(self) -> None:
        """Start the engine thread, and wait until it is prepared or has died.

        The engine belongs to the event loop that starts it.
        """
        if self._loop is not None or self._stopped:
            raise RuntimeError("an engine starts once")
        self._loop = asyncio.get_running_loop()
        self._thread.start()
        await self._prepared.wait()

    async def decode(
        self,
        source_ids: tuple[int, ...],
        options: DecodingOptions,
        origin: Origin = DEFAULT_ORIGIN,
    ) -> Decoded:
        """Decode one sentence. Cancelling the call removes it from the batch.

        ``source_ids`` ends with ``eos``. Raises an ``EngineError`` if the sentence is refused, if
        the model fails on it, or if the engine stops first.
        """
        if self._stopped or self._loop is None:
            raise EngineStopped("the engine is not running")
        sequence = Sequence(
            next(self._ids),
            source_ids,
            options,
            origin.priority,
            origin.request,
            origin.caller,
            arrived=time.perf_counter(),
        )
        future: asyncio.Future[Decoded] = self._loop.create_future()
        self._futures[sequence.id] = future
        self.load += sequence.work
        self._inbox.put(_Add(sequence))
        try:
            return await future
        finally:
            del self._futures[sequence.id]
            # Sums of fractions are inexact: no sentence is exactly no load.
            self.load = self.load - sequence.work if self._futures else 0.0
            if future.cancelled() or not future.done():
                self._inbox.put(_Abort(sequence.id))
            else:
                # Avoids asyncio's warning if the call was cancelled just after the failure.
                future.exception()
            # Breaks a reference cycle: the traceback of a failure refers to this frame.
            del future

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """Pause decoding while a group of sentences is queued. All of them are then admitted in the
        same order in every run, which makes batch composition reproducible."""
        self._inbox.put(_Hold())
        try:
            yield
        finally:
            self._inbox.put(_Release())

    async def close(self) -> None:
        """Stop between two steps. Pending ``decode`` calls raise ``EngineStopped``."""
        started, self._stopped = self._loop is not None, True
        self._inbox.put(_Stop())
        if started:
            await asyncio.to_thread(self._thread.join)
            self._fail_pending_futures()
        else:
            self._backend.close()

    def _fail_pending_futures(self) -> None:
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

    # The following methods run on the engine's thread.

    def _run(self) -> None:
        if self.device == "cpu":
            # The thread of a GPU computes little, and the GPU waits for it.
            lower_thread_priority()
        try:
            self._prepare()
            self._report(self._backend.cache_use())
            self._post(self._prepared.set)
            while self._take_commands():
                if self._scheduler.has_work:
                    start = time.perf_counter()
                    finished = self._iterate()
                    self._iteration.busy_seconds = time.perf_counter() - start
                    self._report(self._backend.cache_use())
                    self._deliver(finished)
        except Exception as error:
            self._iteration.died = True
            if self._find_lost():
                logger.error("the engine on %s ends: %s", self.device, error)
            else:
                logger.exception("the engine died")
        finally:
            # Later calls are refused; the futures of earlier calls fail.
            self._stopped = True
            self._post(self._prepared.set)
            self._post(self._fail_pending_futures)
            self._shut_down()

    def _take_commands(self) -> bool:
        """Apply the commands of the inbox; block only when there is no work. False means stop."""
        while self._holding or not self._scheduler.has_work or not self._inbox.empty():
            if self._inbox.empty():
                self._report(self._backend.cache_use())
            match self._next_command():
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
        return True

    def _next_command(self) -> _Command:
        """Wait for a command. Meanwhile the device is checked; raises ``DeviceLost``."""
        while True:
            try:
                return self._inbox.get(timeout=None if self.device == "cpu" else _CHECK_SECONDS)
            except queue.Empty:
                self._backend.check()

    def _add(self, sequence: Sequence) -> None:
        try:
            self._scheduler.add(sequence)
        except EngineError as error:
            self._deliver([(sequence, error)])

    def _cancel(self, sequence_id: int) -> None:
        if self._scheduler.abort(sequence_id, "cancelled"):
            self._depart("cancelled", 1)

    def _iterate(self) -> list[tuple[Sequence, _Outcome]]:
        """Admit, encode and step once; returns the sentences that finished, with results."""
        plan = self._scheduler.schedule()
        if not self._admit(plan):
            plan = self._scheduler.reschedule()
        if plan.step is None:
            return []
        found = self._step(plan.step, plan.sequences)
        if found is None:
            return []
        leaving = _timed(self._scheduler.apply(found))
        self._note_ends(leaving)
        return leaving

    def _admit(self, plan: Plan) -> bool:
        now = time.perf_counter()
        for sequence in plan.admitted:
            sequence.entered = now
        staying = len(plan.sequences) - len(plan.admitted)
        self._iteration.running = staying + len(plan.displaced)
        self._iteration.waited_seconds = [now - sequence.arrived for sequence in plan.admitted]
        self._note_return("displaced", plan.displaced, now)
        for origin, slot in plan.moves:
            self._backend.move(origin, slot)
        return plan.encode is None or self._encode(plan.encode, plan.admitted)

    def _encode(self, batch: EncodeBatch | Admission, admitted: list[Sequence]) -> bool:
        """Encode the newly admitted sentences. A failure removes only those from the batch."""
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
        lengths = [len(source) for source in batch.sources]
        self._iteration.encode_seconds = time.perf_counter() - start
        self._iteration.encoded_tokens = sum(lengths)
        self._iteration.padded_tokens = max(lengths) * len(lengths)
        return True

    def _step(
        self, batch: StepBatch | Launch, sequences: list[Sequence]
    ) -> Candidates | Ranked | None:
        """Extend every row by one token. A failure removes all sentences from the batch.

        Raises ``DeviceLost`` if the failure is that of the device.
        """
        start = time.perf_counter()
        try:
            found: Candidates | Ranked = self._backend.step(batch)
        except MemoryError as error:
            self._make_room(self._scheduler.dispensable(), sequences, error)
            return None
        except Exception as error:
            logger.exception("a step of %d sentences failed", len(sequences))
            self._fail(sequences, error)
            return None
        self._iteration.step_seconds = time.perf_counter() - start
        self._iteration.rows = batch.rows
        return found

    def _make_room(
        self, leaving: list[Sequence], tried: list[Sequence], error: MemoryError
    ) -> None:
        """Preempt the sentences in ``leaving``. A sentence that runs alone fails instead."""
        if len(tried) == len(self._scheduler.running) == 1:
            self._fail(tried, error)
            return
        logger.warning("memory is short, %d sentences return to the queue: %s", len(leaving), error)
        self._scheduler.preempt(leaving)
        self._note_return("preempted", leaving, time.perf_counter())

    def _note_return(self, reason: LeaveReason, sequences: list[Sequence], now: float) -> None:
        """Record sentences that went back to the waiting queue."""
        for sequence in sequences:
            sequence.arrived = now
        self._depart(reason, len(sequences))

    def _fail(self, sequences: list[Sequence], error: Exception) -> None:
        # Found before the futures fail, so that no caller tries this engine again.
        lost = self._find_lost()
        failures: list[tuple[Sequence, _Outcome]] = []
        # Last slot first: removing a sentence then never moves another one to be removed.
        for sequence in reversed(sequences):
            self._scheduler.abort(sequence.id, "failed")
            failure = BackendFailed(
                f"there is no memory for this sentence: {error}"
                if isinstance(error, MemoryError)
                else "the model failed on this batch"
            )
            failure.__cause__ = error
            failures.append((sequence, failure))
        self._depart("failed", len(sequences))
        self._deliver(failures)
        if lost:
            raise DeviceLost(str(error)) from error

    def _find_lost(self) -> bool:
        """Whether the device is lost; if so, the engine must end."""
        try:
            self._backend.check()
        except DeviceLost:
            self.lost = True
        return self.lost

    def _note_ends(self, outcomes: Collection[tuple[Sequence, _Outcome]]) -> None:
        """Record sentences that left the batch with a translation or a failure."""
        decoded = [(each, outcome) for each, outcome in outcomes if isinstance(outcome, Decoded)]
        for sequence, outcome in decoded:
            # A recorded search repeats that of a translation that has been counted.
            if outcome.tree is None:
                complete = outcome.finish_reason is FinishReason.COMPLETE
                target_tokens = len(outcome.hypotheses[0].token_ids) + complete
                self._iteration.finished.append(
                    Finished(outcome.finish_reason, sequence.source_length, target_tokens)
                )
        self._depart("failed", len(outcomes) - len(decoded))
        self._depart("finished", len(decoded))

    def _depart(self, reason: LeaveReason, count: int) -> None:
        """Record ``count`` sentences that the scheduler has already removed from the batch."""
        if count:
            departure = Departure(reason, count, len(self._scheduler.running))
            self._iteration.departures.append(departure)

    def _report(self, cache: CacheUse) -> None:
        """Hand the record to the observer and begin the next."""
        record, self._iteration = self._iteration, Iteration()
        waiting = self._scheduler.waiting
        record.waiting_sentences, record.waiting_tokens = len(waiting), waiting.tokens
        record.cache = cache
        self._observe(record)

    def _shut_down(self) -> None:
        if self.lost:
            _never_closed.append(self._backend)
        else:
            self._close_backend()
        abandoned = [*self._scheduler.running, *self._scheduler.waiting]
        in_batch = sum(self._scheduler.abort(sequence.id, "failed") for sequence in abandoned)
        self._depart("failed", in_batch)
        self._report(NO_CACHE)

    def _close_backend(self) -> None:
        try:
            self._backend.close()
        except Exception:
            logger.exception("closing the backend failed")
            # Another engine may have lost the device, which this one has not touched since.
            _never_closed.append(self._backend)

    def _deliver(self, outcomes: Collection[tuple[Sequence, _Outcome]]) -> None:
        if outcomes:
            self._post(self._settle, outcomes)

    def _post(self, callback: Callable[..., None], *arguments: object) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            # The event loop closed without closing the engine: no caller waits.
            if not self._loop.is_closed():
                raise
            self._inbox.put(_Stop())


def _timed(leaving: Collection[tuple[Sequence, _Outcome]]) -> list[tuple[Sequence, _Outcome]]:
    """Add to each decoded outcome the seconds of queueing and decoding."""
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
