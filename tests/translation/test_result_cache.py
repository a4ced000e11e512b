from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from service.engine.errors import BackendFailed
from service.engine.types import Decoded, DecodingOptions, FinishReason, Hypothesis, Priority
from service.translation.result_cache import Lookup, ResultCache

pytestmark = pytest.mark.anyio
GREEDY = DecodingOptions(beam_size=1)


class Engine:
    """Answers with its source once it is let go."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, ...]] = []
        self.cancelled = 0
        self.go = asyncio.Event()
        self.error: Exception | None = None

    async def decode(
        self,
        source_ids: tuple[int, ...],
        options: DecodingOptions,
        priority: Priority,
        request: int = 0,
    ) -> Decoded:
        self.asked.append(source_ids)
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        return Decoded((Hypothesis(source_ids, -1.0),), FinishReason.COMPLETE)


@asynccontextmanager
async def asking(
    results: ResultCache, *sources: tuple[int, ...]
) -> AsyncIterator[list[asyncio.Task[Decoded]]]:
    tasks = [asyncio.create_task(results.decode(s, GREEDY, "interactive")) for s in sources]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    yield tasks
    for task in tasks:
        with suppress(asyncio.CancelledError, BackendFailed):
            await task


async def test_the_same_question_in_flight_is_asked_once() -> None:
    engine, told = Engine(), list[Lookup]()
    results = ResultCache(engine.decode, 0, told.append)
    async with asking(results, (1,), (1,), (2,)):
        engine.go.set()
    assert engine.asked == [(1,), (2,)]
    assert told == ["miss", "coalesced", "miss"]


async def test_work_goes_on_while_anybody_waits_for_it() -> None:
    engine = Engine()
    results = ResultCache(engine.decode)
    async with asking(results, (1,), (1,)) as (first, second):
        first.cancel()
        await asyncio.sleep(0)
        engine.go.set()
        assert (await second).hypotheses[0].token_ids == (1,)
    assert engine.cancelled == 0


async def test_work_ends_when_nobody_waits_for_it_and_is_not_joined_again() -> None:
    engine = Engine()
    results = ResultCache(engine.decode)
    async with asking(results, (1,), (1,)) as (first, second):
        first.cancel()
        second.cancel()
        await asyncio.sleep(0)
        async with asking(results, (1,)) as (third,):
            engine.go.set()
            await third
    assert engine.cancelled == 1
    assert engine.asked == [(1,), (1,)]


async def test_a_failure_reaches_everyone_and_is_not_kept() -> None:
    engine = Engine()
    engine.error = BackendFailed("no")
    results = ResultCache(engine.decode, 1 << 20)
    async with asking(results, (1,), (1,)) as tasks:
        engine.go.set()
        for task in tasks:
            with pytest.raises(BackendFailed):
                await task
    engine.error = None
    await results.decode((1,), GREEDY, "interactive")
    assert len(engine.asked) == 2


async def test_recent_results_are_kept_within_their_bound_the_oldest_going_first() -> None:
    engine = Engine()
    engine.go.set()
    results = ResultCache(engine.decode, 3_000)
    for source in [(1,), (2,), (1,), (3,), (1,), (2,)]:
        await results.decode(source, GREEDY, "interactive")
        assert results.bytes <= 3_000
    assert engine.asked == [(1,), (2,), (3,), (2,)]


async def test_draws_are_not_kept() -> None:
    engine = Engine()
    engine.go.set()
    results = ResultCache(engine.decode, 1 << 20)
    options = DecodingOptions(beam_size=1, sampling_topk=0, seed=7)
    for _ in range(2):
        await results.decode((1,), options, "interactive")
    assert len(engine.asked) == 2


async def test_an_answer_from_memory_took_no_time() -> None:
    engine = Engine()
    engine.go.set()
    results = ResultCache(engine.decode, 1 << 20)
    await results.decode((1,), GREEDY, "interactive")
    again = await results.decode((1,), GREEDY, "interactive")
    assert again.durations.queued == again.durations.decoding == 0
