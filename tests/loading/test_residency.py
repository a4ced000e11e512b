"""Loads, uses, failures, cancellations and retirements of models in any order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.bundle.manifest import InvalidBundle
from service.catalogue import residency
from service.catalogue.errors import ModelMemoryFull, NotReady
from service.catalogue.loaded_model import LoadedModel
from service.catalogue.residency import OnDemand, Residency
from service.engine.errors import EngineStopped

LIMIT = 100
SIZES = (30, 40, 60, 90)
NUMBERS = st.integers(0, len(SIZES) - 1)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("use"), NUMBERS),
        st.tuples(st.just("release"), st.integers(0, 9)),
        st.tuples(st.just("cancel"), st.integers(0, 9)),
        st.tuples(st.just("break"), NUMBERS),
        st.tuples(st.just("kill"), NUMBERS),
        st.tuples(st.just("retire"), NUMBERS),
        st.tuples(st.just("wait"), st.integers(1, 9)),
    ),
    max_size=40,
)


class Process:
    """Memory of models whose sizes are those of their files, and of nothing else."""

    def __init__(self) -> None:
        self.bytes = 0
        self.evicted: list[str] = []
        self.residency = Residency(LIMIT, lambda: self.bytes, self)
        self.models = [OneModel(self, str(number), size) for number, size in enumerate(SIZES)]

    def model_resident(self, model: str, size: int) -> None: ...

    def model_evicted(self, model: str) -> None:
        self.evicted.append(model)

    def model_load_failed(self, model: str) -> None: ...


class OneModel:
    """Stands for the loaded model and for its engine."""

    def __init__(self, process: Process, name: str, size: int) -> None:
        self.process, self.size = process, size
        self.broken = self.loaded = False
        self.alive = True
        self.users = 0
        self.on_demand = OnDemand(name, size, self.load, lambda: None)

    @property
    def engine(self) -> OneModel:
        return self

    async def load(self) -> LoadedModel:
        assert not self.loaded, "loaded twice"
        await asyncio.sleep(0)
        if self.broken:
            raise InvalidBundle("broken")
        self.loaded = self.alive = True
        self.process.bytes += self.size
        assert self.process.bytes <= LIMIT
        return cast(LoadedModel, cast(Any, self))

    async def close(self) -> None:
        assert self.loaded, "closed twice"
        await asyncio.sleep(0)
        may = not self.users or not self.alive or self.on_demand.closed
        assert may, "closed while it was used"
        self.loaded = False
        self.process.bytes -= self.size


async def _use(model: OneModel, release: asyncio.Event) -> None:
    async with model.process.residency.using(model.on_demand):
        assert model.loaded
        model.users += 1
        try:
            await release.wait()
        finally:
            model.users -= 1


async def _inline(work: Callable[[], int]) -> int:
    await asyncio.sleep(0)
    return work()


async def turns(count: int = 20) -> None:
    """Turns of the event loop, of which a load takes less than the default."""
    for _ in range(count):
        await asyncio.sleep(0)


@asynccontextmanager
async def _process() -> AsyncIterator[Process]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(residency, "GROWTH_PER_BYTE", 1.0)
        patch.setattr(residency, "RETRY_SECONDS", 0)
        patch.setattr(residency, "ROOM_SECONDS", 60.0)
        patch.setattr(asyncio, "to_thread", _inline)
        yield Process()


@given(ACTIONS)
@settings(max_examples=300)
def test_models_stay_within_the_limit_and_in_use_and_all_are_closed(
    actions: list[tuple[str, int]],
) -> None:
    async def run() -> None:
        async with _process() as process:
            users: list[tuple[asyncio.Task[None], asyncio.Event]] = []
            for action, number in actions:
                model = process.models[number % len(SIZES)]
                if action == "use":
                    release = asyncio.Event()
                    users.append((asyncio.create_task(_use(model, release)), release))
                elif action == "break":
                    model.broken = not model.broken
                elif action == "kill":
                    model.alive = False
                elif action == "retire":
                    await process.residency.close(model.on_demand)
                elif action == "wait":
                    await turns(number)
                elif number < len(users):
                    user, release = users[number]
                    release.set() if action == "release" else user.cancel()
            for model in process.models:
                model.broken = False
            for _, release in users:
                release.set()
            async with asyncio.timeout(5):
                ended = await asyncio.gather(*(user for user, _ in users), return_exceptions=True)
            expected = asyncio.CancelledError | NotReady | EngineStopped | None
            assert all(isinstance(each, expected) for each in ended), ended
            for model in process.models:
                await process.residency.close(model.on_demand)
            await turns()
            assert process.bytes == 0

    asyncio.run(run())


async def test_least_recently_used_models_give_way_and_only_if_that_suffices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with _process() as process:
        small, middle, large, largest = process.models
        for each in (small, middle, small):
            async with process.residency.using(each.on_demand):
                pass
        async with process.residency.using(large.on_demand):
            assert process.evicted == ["1"]
            monkeypatch.setattr(residency, "ROOM_SECONDS", 0.01)
            with pytest.raises(ModelMemoryFull):
                async with process.residency.using(largest.on_demand):
                    pass
            assert small.loaded and not middle.loaded


async def test_load_is_given_up_once_no_request_waits_for_it() -> None:
    async with _process() as process:
        small, _, _, largest = process.models
        async with process.residency.using(small.on_demand):
            waiting = asyncio.create_task(_use(largest, asyncio.Event()))
            await turns()
            waiting.cancel()
            await turns()
        assert small.loaded and not largest.loaded


async def test_model_that_is_larger_than_the_limit_is_closed_and_refused() -> None:
    async with _process() as process:
        largest = process.models[-1]
        largest.on_demand.file_bytes, process.residency._limit = 40, 80
        with pytest.raises(NotReady):
            async with process.residency.using(largest.on_demand):
                pass
        assert process.bytes == 0


async def test_load_that_is_cancelled_while_it_makes_room_closes_the_model_that_gives_way() -> None:
    async with _process() as process:
        small, _, _, largest = process.models
        async with process.residency.using(small.on_demand):
            pass
        waiting = asyncio.create_task(_use(largest, asyncio.Event()))
        while small.on_demand.model is not None:
            await asyncio.sleep(0)
        await process.residency.close(largest.on_demand)
        with pytest.raises(EngineStopped):
            await waiting
        await turns()
        assert process.bytes == 0
