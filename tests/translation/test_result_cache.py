from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from service.catalogue.result_cache import Lookup, ResultCache
from service.engine.errors import BackendFailed
from service.engine.types import Decoded, DecodingOptions, FinishReason, Hypothesis, Origin

GREEDY = DecodingOptions(beam_size=1)


class Engine:
    """Returns its source once ``go`` is set."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, ...]] = []
        self.cancelled = 0
        self.go = asyncio.Event()
        self.error: Exception | None = None

    async def decode(
        self, source_ids: tuple[int, ...], options: DecodingOptions, origin: Origin
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


async def one(
    results: ResultCache,
    source_ids: tuple[int, ...],
    options: DecodingOptions = GREEDY,
    scope: str = "",
) -> Decoded:
    (decoded,) = await results.decode([(source_ids, options)], Origin(scope=scope))
    return decoded


@asynccontextmanager
async def asking(
    results: ResultCache, *sources: tuple[int, ...]
) -> AsyncIterator[list[asyncio.Task[Decoded]]]:
    tasks = [asyncio.create_task(one(results, s)) for s in sources]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    yield tasks
    for task in tasks:
        with suppress(asyncio.CancelledError, BackendFailed):
            await task


async def test_identical_calls_in_flight_are_decoded_once() -> None:
    engine, lookups = Engine(), list[Lookup]()
    results = ResultCache(engine.decode, 0, lookups.append)
    async with asking(results, (1,), (1,), (2,)):
        engine.go.set()
    assert engine.asked == [(1,), (2,)]
    assert lookups == ["miss", "coalesced", "miss"]


async def test_a_result_is_kept_for_its_options_and_scope_only() -> None:
    engine, lookups = Engine(), list[Lookup]()
    engine.go.set()
    results = ResultCache(engine.decode, 1 << 20, lookups.append)
    for options, scope in (
        (GREEDY, ""),
        (GREEDY, ""),
        (GREEDY, "another"),
        (DecodingOptions(beam_size=2), ""),
    ):
        await one(results, (1,), options, scope)
    assert lookups == ["miss", "hit", "miss", "miss"]


async def test_kept_results_of_a_request_are_returned_without_tasks() -> None:
    engine = Engine()
    engine.go.set()
    results = ResultCache(engine.decode, 1 << 20)
    sentences = [((number,), GREEDY) for number in range(3)]
    first = await results.decode(sentences, Origin())
    created = list[object]()

    def create(loop: asyncio.AbstractEventLoop, coroutine: Any) -> asyncio.Task[Any]:
        created.append(coroutine)
        return asyncio.Task(coroutine, loop=loop)

    asyncio.get_running_loop().set_task_factory(create)
    again = await results.decode(sentences, Origin())
    assert [each.hypotheses for each in again] == [each.hypotheses for each in first]
    assert not created
    await results.decode([*sentences, ((9,), GREEDY)], Origin())
    assert len(created) == 1


async def test_results_are_delivered_as_soon_as_they_are_known() -> None:
    engine = Engine()
    results = ResultCache(engine.decode, 1 << 20)
    engine.go.set()
    await one(results, (1,))
    engine.go.clear()
    delivered = list[int]()
    sentences = [((number,), GREEDY) for number in range(3)]
    work = asyncio.create_task(
        results.decode(sentences, Origin(), lambda number, _: delivered.append(number))
    )
    await asyncio.sleep(0)
    assert delivered == [1]
    engine.go.set()
    await work
    assert sorted(delivered) == [0, 1, 2]


async def test_first_failure_of_a_request_cancels_its_other_sentences() -> None:
    engine = Engine()

    async def decode(
        source_ids: tuple[int, ...], options: DecodingOptions, origin: Origin
    ) -> Decoded:
        if source_ids == (0,):
            raise BackendFailed("no")
        return await engine.decode(source_ids, options, origin)

    results = ResultCache(decode)
    async with asking(results, (1,)) as (other,):
        with pytest.raises(BackendFailed):
            await results.decode([((n,), GREEDY) for n in (1, 2, 0, 3)], Origin())
        await asyncio.sleep(0)
        # The sentence that another call waits for goes on.
        assert (engine.asked, engine.cancelled) == ([(1,), (2,), (3,)], 2)
        assert not other.done()
        engine.go.set()


async def test_decoding_continues_while_one_call_waits() -> None:
    engine = Engine()
    results = ResultCache(engine.decode)
    async with asking(results, (1,), (1,)) as (first, second):
        first.cancel()
        await asyncio.sleep(0)
        engine.go.set()
        assert (await second).hypotheses[0].token_ids == (1,)
    assert engine.cancelled == 0


async def test_decoding_is_cancelled_with_its_last_call_and_not_joined_again() -> None:
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


async def test_failure_is_raised_in_all_waiting_calls_and_not_cached() -> None:
    engine = Engine()
    engine.error = BackendFailed("no")
    results = ResultCache(engine.decode, 1 << 20)
    async with asking(results, (1,), (1,)) as tasks:
        engine.go.set()
        for task in tasks:
            with pytest.raises(BackendFailed):
                await task
    engine.error = None
    await one(results, (1,))
    assert len(engine.asked) == 2


async def test_least_recently_used_results_are_evicted_above_the_memory_limit() -> None:
    engine = Engine()
    engine.go.set()
    results = ResultCache(engine.decode, 5_000)
    for source in [(1,), (2,), (1,), (3,), (1,), (2,)]:
        await one(results, source)
    assert engine.asked == [(1,), (2,), (3,), (2,)]


async def test_sampled_results_are_not_cached() -> None:
    engine = Engine()
    engine.go.set()
    results = ResultCache(engine.decode, 1 << 20)
    options = DecodingOptions(beam_size=1, sampling_topk=0, seed=7)
    for _ in range(2):
        await one(results, (1,), options)
    assert len(engine.asked) == 2


async def test_cached_result_has_zero_durations() -> None:
    engine = Engine()
    engine.go.set()
    results = ResultCache(engine.decode, 1 << 20)
    await one(results, (1,))
    again = await one(results, (1,))
    assert again.durations.queued == again.durations.decoding == 0


def long_source(number: int) -> tuple[tuple[int, ...], DecodingOptions]:
    return tuple(range(1_000 * number, 1_000 * number + 500)), GREEDY


def short_source(number: int) -> tuple[tuple[int, ...], DecodingOptions]:
    return (number,), DecodingOptions(beam_size=1, length_penalty=number / 100_000)


def long_prefix(number: int) -> tuple[tuple[int, ...], DecodingOptions]:
    prefix = tuple(range(1_000 * number, 1_000 * number + 2_000))
    return (1,), DecodingOptions(beam_size=1, target_prefix=prefix, max_decoding_length=4_000)


def many_suppressed(number: int) -> tuple[tuple[int, ...], DecodingOptions]:
    suppressed = tuple((1_000 * number + n,) for n in range(500))
    return (1,), DecodingOptions(beam_size=1, suppress_sequences=suppressed)


@pytest.mark.parametrize("make", [long_source, short_source, long_prefix, many_suppressed])
async def test_memory_stays_below_the_limit_for_any_key(
    make: Callable[[int], tuple[tuple[int, ...], DecodingOptions]],
) -> None:
    limit = 1 << 20
    engine = Engine()
    engine.go.set()
    results = ResultCache(engine.decode, limit)
    tracemalloc.start()
    try:
        # The smallest results take 1,800 bytes by the estimate: 700 of them exceed the limit.
        for number in range(1, 700):
            await one(results, *make(number))
            engine.asked.clear()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert limit / 8 < taken < limit
