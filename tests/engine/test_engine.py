from __future__ import annotations

import asyncio
import gc
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine.engine import Engine, device_was_lost
from service.engine.errors import BackendFailed, BeamTooWide, EngineStopped, SentenceTooLong
from service.engine.scheduler import Scheduler
from service.engine.types import Decoded, DecodingOptions, FinishReason
from service.runtime.backend import Candidates, EncodeBatch, Limits, StepBatch
from tests.engine.toy import SPECIAL_IDS, copying_model, random_model
from tests.engine.watching import (
    CountingObserver,
    FlakyBackend,
    GatedBackend,
    GatedFlakyBackend,
)
from tests.support.raising import raiser
from tests.support.toy import ScriptedBackend

LIMITS = Limits(slots=2, rows_per_slot=4, source_length=8, target_length=16)
GREEDY = DecodingOptions(beam_size=1)


def make_scheduler() -> Scheduler:
    return Scheduler(LIMITS, SPECIAL_IDS)


def make_engine(backend: ScriptedBackend, observer: CountingObserver | None = None) -> Engine:
    return Engine(backend, make_scheduler(), observer or (lambda _: None))


@asynccontextmanager
async def running(
    backend: ScriptedBackend,
    observer: CountingObserver | None = None,
    scheduler: Scheduler | None = None,
) -> AsyncIterator[Engine]:
    """An engine that has been started, and is closed at the end."""
    engine = Engine(backend, scheduler or make_scheduler(), observer or (lambda _: None))
    await engine.start()
    try:
        yield engine
    finally:
        await engine.close()


async def reached(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, 5)


async def test_a_sentence_is_admitted_while_another_is_decoding() -> None:
    observer, backend = CountingObserver(), GatedBackend(copying_model, LIMITS)
    async with running(backend, observer) as engine:
        first = asyncio.create_task(engine.decode((3, 4, 5), GREEDY))
        await reached(backend.stepping)
        second = asyncio.create_task(engine.decode((6,), GREEDY))
        await asyncio.sleep(0)
        backend.gate.set()
        await asyncio.gather(first, second)

    assert observer.running_at_join == [0, 1]
    assert observer.steps == [(1, 1), (2, 2), (2, 2), (1, 1)]
    assert observer.encodes == [(3, 3), (1, 1)]
    assert observer.finish_reasons == {FinishReason.COMPLETE: 2}
    assert (observer.source_tokens, observer.target_tokens) == (4, 6)
    assert all(seconds >= 0 for seconds in observer.waited)


async def test_a_cancelled_call_leaves_the_batch() -> None:
    observer, backend = CountingObserver(), GatedBackend(copying_model, LIMITS)
    async with running(backend, observer) as engine:
        abandoned = asyncio.create_task(engine.decode((3,) * 8, GREEDY))
        await reached(backend.stepping)
        abandoned.cancel()
        await asyncio.gather(abandoned, return_exceptions=True)
        backend.gate.set()
        await engine.decode((4, 5), GREEDY)
    assert backend.batch_sizes == [1, 1, 1, 1]
    assert observer.departures == {"cancelled": 1, "finished": 1}


async def test_a_failing_step_fails_only_the_sentences_in_it() -> None:
    backend, observer = FlakyBackend(copying_model, LIMITS), CountingObserver()
    backend.failing_steps = 1
    async with running(backend, observer) as engine:
        with pytest.raises(BackendFailed) as failure:
            await engine.decode((3, 4), DecodingOptions())
        assert isinstance(failure.value.__cause__, RuntimeError)
        assert engine.alive
        assert (await engine.decode((3, 4), DecodingOptions())).hypotheses[0].token_ids == (3, 4)
    assert observer.departures == {"failed": 1, "finished": 1}


async def test_a_failing_encode_fails_only_the_newly_admitted_sentences() -> None:
    backend, observer = GatedFlakyBackend(copying_model, LIMITS), CountingObserver()
    async with running(backend, observer) as engine:
        earlier = asyncio.create_task(engine.decode((3, 4, 5), GREEDY))
        await reached(backend.stepping)
        backend.failing_encodes = 1
        admitted_later = asyncio.create_task(engine.decode((6,), GREEDY))
        await asyncio.sleep(0)
        backend.gate.set()
        with pytest.raises(BackendFailed):
            await admitted_later
        assert (await earlier).hypotheses[0].token_ids == (3, 4, 5)
    assert backend.batch_sizes == [1, 1, 1, 1]
    assert observer.departures == {"failed": 1, "finished": 1}


async def test_repeated_encode_failures_do_not_delay_running_sentences() -> None:
    backend = GatedFlakyBackend(copying_model, LIMITS)
    scheduler = Scheduler(LIMITS, SPECIAL_IDS, max_padded_tokens=1)
    async with running(backend, scheduler=scheduler) as engine:
        earlier = asyncio.create_task(engine.decode((3, 4, 5), GREEDY))
        await reached(backend.stepping)
        backend.failing_encodes = 2
        admitted_later = [asyncio.create_task(engine.decode((6,), GREEDY)) for _ in range(2)]
        await asyncio.sleep(0)
        backend.gate.set()
        outcomes = await asyncio.gather(earlier, *admitted_later, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Decoded, BackendFailed, BackendFailed]
    assert backend.calls == ["encode", "step", "encode", "step", "encode", "step", "step"]


async def test_a_failing_encode_in_an_empty_batch_runs_no_step() -> None:
    backend = FlakyBackend(copying_model, LIMITS)
    backend.failing_encodes = 1
    async with running(backend) as engine:
        with pytest.raises(BackendFailed):
            await engine.decode((3,), GREEDY)
        assert backend.batch_sizes == []
        await engine.decode((3,), GREEDY)


async def test_decode_raises_the_reason_of_a_refusal() -> None:
    async with running(ScriptedBackend(copying_model, LIMITS)) as engine:
        with pytest.raises(SentenceTooLong):
            await engine.decode((3,) * 9, DecodingOptions())
        with pytest.raises(BeamTooWide):
            await engine.decode((3,), DecodingOptions(beam_size=5))
        with pytest.raises(ValueError, match="source_ids is empty"):
            await engine.decode((), DecodingOptions())
        assert engine.alive
    with pytest.raises(EngineStopped):
        await engine.decode((3,), DecodingOptions())


async def test_a_backend_that_cannot_be_closed_is_kept_until_the_process_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kept: list[object] = []
    monkeypatch.setattr("service.engine.engine._never_closed", kept)
    backend = ScriptedBackend(copying_model, LIMITS)
    monkeypatch.setattr(backend, "close", raiser(RuntimeError("the GPU is lost")), raising=False)
    async with running(backend):
        assert not device_was_lost()
    assert kept == [backend] and device_was_lost()
    assert "closing the backend failed" in caplog.text


async def test_closing_fails_all_pending_calls_with_engine_stopped() -> None:
    observer, backend = CountingObserver(), GatedBackend(copying_model, LIMITS)
    engine = make_engine(backend, observer)
    await engine.start()
    calls = [asyncio.create_task(engine.decode((3,), GREEDY)) for _ in range(5)]
    await reached(backend.stepping)
    closing = asyncio.create_task(engine.close())
    await asyncio.sleep(0)
    assert not engine.alive
    with pytest.raises(EngineStopped):
        await engine.decode((3,), GREEDY)
    assert not closing.done(), "closing waits for the step, and the event loop does not"
    backend.gate.set()
    outcomes = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), timeout=5)
    await closing
    assert [type(outcome) for outcome in outcomes] == [EngineStopped] * 5
    assert backend.closed
    assert observer.running == 0
    assert observer.line == (0, 0)


async def test_closing_twice_or_before_the_start_is_harmless() -> None:
    backend = ScriptedBackend(copying_model, LIMITS)
    engine = make_engine(backend)
    assert not engine.alive
    with pytest.raises(EngineStopped):
        await engine.decode((3,), GREEDY)
    await engine.close()
    await engine.close()
    assert backend.closed
    with pytest.raises(RuntimeError, match="starts once"):
        await engine.start()

    started = make_engine(ScriptedBackend(copying_model, LIMITS))
    await started.start()
    assert started.alive
    await started.close()
    await started.close()
    assert not started.alive


async def test_an_engine_that_dies_fails_all_pending_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    observer, backend = CountingObserver(), ScriptedBackend(copying_model, LIMITS)
    engine = make_engine(backend, observer)
    monkeypatch.setattr(Scheduler, "apply", lambda *_: 1 / 0)
    await engine.start()
    calls = (engine.decode((3, 4), DecodingOptions()) for _ in range(5))
    outcomes = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), timeout=2)
    assert [type(outcome) for outcome in outcomes] == [EngineStopped] * 5
    assert not engine.alive
    await engine.close()
    assert backend.closed
    assert observer.running == 0


def test_closing_the_event_loop_first_stops_the_engine_thread_silently(
    caplog: pytest.LogCaptureFixture,
) -> None:
    backend = GatedBackend(copying_model, LIMITS)
    engine = make_engine(backend)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(engine.start())
    forgotten = loop.create_task(engine.decode((3,), GREEDY))
    loop.run_until_complete(reached(backend.stepping))
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    assert engine.alive

    backend.gate.set()
    # The second step finishes the sentence after its event loop has closed.
    assert backend.ended.wait(5)
    assert not engine.alive
    assert caplog.records == []
    # Collect the pending task here, so that its warning does not appear in another test.
    del forgotten, loop, engine
    gc.collect()


class _Unreliable(ScriptedBackend):
    def __init__(self, rng: random.Random) -> None:
        super().__init__(random_model, LIMITS)
        self.rng = rng

    def encode(self, batch: EncodeBatch) -> None:
        if self.rng.random() < 0.1:
            raise RuntimeError("out of memory")
        super().encode(batch)

    def step(self, batch: StepBatch) -> Candidates:
        if self.rng.random() < 0.05:
            raise RuntimeError("out of memory")
        return super().step(batch)


@settings(max_examples=25, deadline=None)
@given(
    fates=st.lists(st.sampled_from(["stay", "stay", "cancel", "too long"]), max_size=25),
    close_early=st.booleans(),
    rng=st.randoms(use_true_random=False),
)
def test_every_call_has_one_outcome(
    fates: list[str], close_early: bool, rng: random.Random
) -> None:
    """Every call has one outcome, and the counts of scheduler and observer agree."""
    observer, scheduler = CountingObserver(), make_scheduler()
    engine = Engine(_Unreliable(random.Random(rng.random())), scheduler, observer)

    async def call(fate: str) -> Decoded:
        source = (3,) * (9 if fate == "too long" else 1 + rng.randrange(8))
        options = DecodingOptions(beam_size=2, max_decoding_length=6)
        return await engine.decode(source, options)

    async def run_all() -> Counter[str]:
        await engine.start()
        tasks = []
        for fate in fates:
            tasks.append(asyncio.create_task(call(fate)))
            for _ in range(rng.randrange(5)):
                await asyncio.sleep(0)
            if fate == "cancel":
                tasks[-1].cancel()
        if close_early:
            await engine.close()
        outcomes = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
        await engine.close()
        return Counter(type(outcome).__name__ for outcome in outcomes)

    outcomes = asyncio.run(run_all())
    counts = scheduler.outcomes
    scheduler.check_integrity()
    assert counts.accepted == counts.finished + counts.failed + counts.cancelled
    assert outcomes.total() == len(fates)
    assert outcomes["SentenceTooLong"] <= fates.count("too long")
    # A call may be cancelled after its sentence has already finished or failed.
    assert outcomes["Decoded"] <= counts.finished <= outcomes["Decoded"] + fates.count("cancel")
    assert outcomes["BackendFailed"] <= counts.failed

    assert observer.running == 0
    assert observer.line == (0, 0)
    assert observer.joined_sentences == observer.departures.total()
    assert observer.departures["finished"] == counts.finished
    assert observer.finish_reasons.total() == counts.finished
    # Sentences aborted in the waiting queue were never in the batch.
    assert observer.departures["failed"] <= counts.failed
    assert observer.departures["cancelled"] <= counts.cancelled


class Narrow(ScriptedBackend):
    """Backend with memory for ``rows`` rows and ``source_tokens`` source tokens in total."""

    def __init__(self, rows: int, source_tokens: int) -> None:
        super().__init__(random_model, LIMITS)
        self.room = rows, source_tokens
        self.refusals = 0

    def encode(self, batch: EncodeBatch) -> None:
        kept = self.sources[: batch.first_slot]
        if sum(map(len, [*kept, *batch.sources])) > self.room[1]:
            self.refusals += 1
            raise MemoryError("full")
        super().encode(batch)

    def step(self, batch: StepBatch) -> Candidates:
        if (batch.parents_BK >= 0).sum() > self.room[0]:
            self.refusals += 1
            raise MemoryError("full")
        return super().step(batch)


@pytest.mark.parametrize("room", [(5, 100), (100, 7)])
async def test_preempted_sentences_finish_with_the_same_result(room: tuple[int, int]) -> None:
    sources = [(3, 4, 5, 6), (5, 6, 7, 8, 9), (7,), (4, 4, 4), (3, 9), (8, 8, 8, 8)]
    options = DecodingOptions(beam_size=3)
    async with running(ScriptedBackend(random_model, LIMITS)) as alone:
        expected = [await alone.decode(source, options) for source in sources]
    backend, observer = Narrow(*room), CountingObserver()
    async with running(backend, observer) as engine:
        found = await asyncio.gather(*(engine.decode(source, options) for source in sources))
    assert found == expected
    assert backend.refusals > 0
    assert observer.departures["finished"] == len(sources)
    assert observer.departures["preempted"] == observer.joined_sentences - len(sources) > 0


async def test_a_sentence_that_exceeds_memory_alone_fails() -> None:
    async with running(Narrow(2, 100)) as engine:
        with pytest.raises(BackendFailed) as failure:
            await engine.decode((3, 4), DecodingOptions(beam_size=3))
        assert isinstance(failure.value.__cause__, MemoryError)
        assert engine.alive
        await engine.decode((3, 4), GREEDY)
