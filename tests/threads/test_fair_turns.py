from __future__ import annotations

import asyncio
import tracemalloc

from service.threads.fair_turns import FairTurns


class Calls:
    """Calls that hold a turn until they are released."""

    def __init__(self, count: int) -> None:
        self._turns = FairTurns(count)
        self.running: list[str | None] = []
        self.begun: list[str | None] = []
        self._released = asyncio.Condition()
        self._free = 0

    def ask(self, caller: str | None) -> asyncio.Task[None]:
        return asyncio.create_task(self._call(caller))

    async def _call(self, caller: str | None) -> None:
        async with self._turns.turn(caller):
            self.running.append(caller)
            self.begun.append(caller)
            try:
                async with self._released:
                    await self._released.wait_for(lambda: self._free > 0)
                    self._free -= 1
            finally:
                self.running.remove(caller)

    async def release(self, count: int = 1) -> None:
        async with self._released:
            self._free += count
            self._released.notify_all()
        await settle()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_one_caller_leaves_a_turn_for_others() -> None:
    calls = Calls(3)
    tasks = [calls.ask("a") for _ in range(5)]
    await settle()
    assert calls.running == ["a", "a"]
    tasks += [calls.ask("b")]
    await settle()
    assert calls.running == ["a", "a", "b"]
    await calls.release(6)
    await asyncio.gather(*tasks)


async def test_callers_alternate_at_a_single_turn() -> None:
    calls = Calls(1)
    tasks = [calls.ask("a") for _ in range(4)]
    await settle()
    tasks += [calls.ask("b") for _ in range(2)]
    for _ in range(6):
        await calls.release()
    await asyncio.gather(*tasks)
    assert calls.begun == ["a", "b", "a", "b", "a", "a"]


async def test_unknown_callers_hold_every_turn_and_cancelled_calls_free_theirs() -> None:
    calls = Calls(2)
    tasks = [calls.ask(None) for _ in range(2)]
    await settle()
    assert calls.running == [None, None]
    await calls.release(2)
    await asyncio.gather(*tasks)
    first, second = calls.ask("a"), calls.ask("a")
    await settle()
    first.cancel()
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    third = calls.ask("a")
    await settle()
    assert calls.running == ["a"]
    await calls.release()
    await third


async def test_callers_without_calls_take_no_memory() -> None:
    turns = FairTurns(2)

    async def call(numbers: range) -> None:
        for number in numbers:
            async with turns.turn(f"address {number}"):
                pass

    await call(range(10))
    tracemalloc.start()
    try:
        await call(range(10, 2_000))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 10_000
