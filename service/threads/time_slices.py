"""Time slices of long work on an event loop, between which other work has its turn."""

from __future__ import annotations

import asyncio
import time

_SLICE_SECONDS = 0.005


class TimeSlices:
    """One piece of work, such as the sentences of a request. Event loop only."""

    def __init__(self) -> None:
        self._end = time.perf_counter() + _SLICE_SECONDS

    async def pause(self) -> None:
        """Let other work run if a few milliseconds have passed since it last did."""
        if time.perf_counter() >= self._end:
            await asyncio.sleep(0)
            self._end = time.perf_counter() + _SLICE_SECONDS
