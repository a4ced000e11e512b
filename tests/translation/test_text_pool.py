from __future__ import annotations

import asyncio
import threading

import pytest

from service.translation.errors import Overloaded
from service.translation.text_pool import Check, TextPool

LONG = ["x" * 100_000]


class Slow:
    """Text work that checks until it is abandoned or released."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.released = threading.Event()
        self.ended = threading.Event()

    def __call__(self, check: Check) -> str:
        self.started.set()
        try:
            while not self.released.wait(0.001):
                check()
        finally:
            self.ended.set()
        return "done"


async def test_short_texts_are_processed_on_the_event_loop_and_long_ones_in_a_thread() -> None:
    pool = TextPool()
    threads = [
        await pool.run(texts, lambda check: threading.current_thread())
        for texts in (["short"], LONG, ["x"] * 2_000)
    ]
    here = threading.current_thread()
    assert [thread is here for thread in threads] == [True, False, False]


async def test_cancelled_call_ends_its_work_at_the_next_check() -> None:
    slow = Slow()
    call = asyncio.create_task(TextPool().run(LONG, slow))
    await asyncio.to_thread(slow.started.wait)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await asyncio.to_thread(slow.ended.wait, 10)


async def test_calls_beyond_the_limit_are_refused_and_short_texts_are_not() -> None:
    pool, slow = TextPool(threads=1, waiting=1), Slow()
    calls = [asyncio.create_task(pool.run(LONG, slow)) for _ in range(2)]
    await asyncio.to_thread(slow.started.wait)
    with pytest.raises(Overloaded):
        await pool.run(LONG, slow)
    assert await pool.run(["short"], lambda check: "done") == "done"
    slow.released.set()
    assert await asyncio.gather(*calls) == ["done", "done"]
    assert await pool.run(LONG, lambda check: "done") == "done"


async def test_busy_pool_leaves_the_default_pool_free() -> None:
    pool, slow = TextPool(threads=2), Slow()
    calls = [asyncio.create_task(pool.run(LONG, slow)) for _ in range(8)]
    await asyncio.to_thread(slow.started.wait)
    assert await asyncio.to_thread(lambda: "free") == "free"
    slow.released.set()
    await asyncio.gather(*calls)
