"""Two engines with simulated devices serve one model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from service.engine.engine import Engine
from service.engine.errors import BackendFailed, EngineStopped
from service.engine.group import EngineGroup
from service.engine.scheduler import Scheduler
from service.engine.types import DecodingOptions
from service.runtime.backend import CacheUse, Candidates, EncodeBatch, Limits, StepBatch
from tests.engine.toy import SPECIAL_IDS, copying_model
from tests.support.toy import ScriptedBackend

LIMITS = Limits(slots=4, rows_per_slot=4, source_length=16, target_length=24)
GREEDY = DecodingOptions(beam_size=1)


class Device(ScriptedBackend):
    """A backend whose device may fail."""

    def __init__(self) -> None:
        super().__init__(copying_model, LIMITS)
        self.failing = False
        self.dying = False
        self.encoded = 0

    def encode(self, batch: EncodeBatch) -> None:
        self.encoded += len(batch.sources)
        super().encode(batch)

    def step(self, batch: StepBatch) -> Candidates:
        if self.failing:
            raise RuntimeError("CUDA error 700: an illegal memory access was encountered")
        return super().step(batch)

    def cache_use(self) -> CacheUse:
        if self.dying:
            raise AssertionError("a bug of the engine")
        return super().cache_use()


@asynccontextmanager
async def two_devices() -> AsyncIterator[tuple[EngineGroup, Device, Device]]:
    devices = Device(), Device()
    group = EngineGroup([Engine(each, Scheduler(LIMITS, SPECIAL_IDS)) for each in devices])
    await group.start()
    try:
        yield group, *devices
    finally:
        await group.close()


async def decode_many(group: EngineGroup, count: int) -> list[tuple[int, ...]]:
    decoded = await asyncio.gather(*(group.decode((3, 4, 5), GREEDY) for _ in range(count)))
    return [each.hypotheses[0].token_ids for each in decoded]


async def test_sentences_spread_evenly_over_idle_devices() -> None:
    async with two_devices() as (group, first, second):
        assert await decode_many(group, 20) == [(3, 4, 5)] * 20
        assert (first.encoded, second.encoded) == (10, 10)


async def test_next_sentence_goes_to_the_device_with_less_work() -> None:
    async with two_devices() as (group, first, second):
        with group.gathering():
            long = asyncio.create_task(group.decode((3,) * 8, DecodingOptions(beam_size=2)))
            await asyncio.sleep(0)
            short = [asyncio.create_task(group.decode((3, 5), GREEDY)) for _ in range(3)]
            await asyncio.sleep(0)
        await asyncio.gather(long, *short)
        assert (first.encoded, second.encoded) == (1, 3)


async def test_sentences_of_a_failing_device_are_decoded_on_the_other() -> None:
    async with two_devices() as (group, first, second):
        first.failing = True
        assert await decode_many(group, 10) == [(3, 4, 5)] * 10
        assert group.complete
        # It was tried with its share, and then gets no more while the other has little work.
        assert (first.encoded, second.encoded) == (5, 10)
        assert await decode_many(group, 10) == [(3, 4, 5)] * 10
        assert (first.encoded, second.encoded) == (5, 20)


async def test_device_that_works_again_gets_its_share_after_one_success() -> None:
    async with two_devices() as (group, first, second):
        first.failing = True
        await decode_many(group, 4)
        first.failing = False
        async with asyncio.timeout(10):
            while not first.encoded > 2:
                await decode_many(group, 8)
        before = first.encoded, second.encoded
        await decode_many(group, 8)
        assert (first.encoded - before[0], second.encoded - before[1]) == (4, 4)


async def test_engine_that_dies_leaves_the_group_alive_and_incomplete() -> None:
    async with two_devices() as (group, first, _):
        first.dying = True
        assert await decode_many(group, 6) == [(3, 4, 5)] * 6
        assert group.alive
        assert not group.complete
        assert await decode_many(group, 6) == [(3, 4, 5)] * 6


async def test_sentence_that_fails_on_both_devices_fails() -> None:
    async with two_devices() as (group, first, second):
        first.failing = second.failing = True
        with pytest.raises(BackendFailed):
            await group.decode((3, 4, 5), GREEDY)
        assert (first.encoded, second.encoded) == (1, 1)


async def test_cancelled_sentence_frees_the_load_of_its_device() -> None:
    async with two_devices() as (group, first, second):
        with group.gathering():
            task = asyncio.create_task(group.decode((3, 4, 5), GREEDY))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await asyncio.gather(*[asyncio.create_task(asyncio.sleep(0))])
        await decode_many(group, 2)
        assert (first.encoded, second.encoded) == (1, 1)


async def test_closing_fails_what_is_pending_and_tries_no_other_device() -> None:
    async with two_devices() as (group, first, second):
        with group.gathering():
            pending = [asyncio.create_task(group.decode((3, 4, 5), GREEDY)) for _ in range(4)]
            await asyncio.sleep(0)
            await group.close()
        outcomes = await asyncio.gather(*pending, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {EngineStopped}
        assert (first.encoded, second.encoded) == (0, 0)
        assert first.closed
        assert second.closed
