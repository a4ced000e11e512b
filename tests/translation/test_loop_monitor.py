from __future__ import annotations

import asyncio
import time

from tests.support.loop_monitor import monitored


async def busy(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


async def test_callback_that_blocks_the_loop_is_reported() -> None:
    with monitored(0.02) as blocking:
        await asyncio.create_task(busy(0.05))
    assert len(blocking) == 1


async def test_waiting_and_work_in_threads_are_not_reported() -> None:
    with monitored(0.02) as blocking:
        await asyncio.sleep(0.05)
        await asyncio.to_thread(lambda: asyncio.run(busy(0.01)))
    assert blocking == []
