"""Draws pictures one after the other, on a thread of its own.

matplotlib is not made for several threads, and drawing takes the interpreter away from whoever
answers; so there is one thread, and no long line before it.
"""

from __future__ import annotations

import asyncio
import gc
from concurrent.futures import ThreadPoolExecutor

from service.figures.heatmap import draw
from service.priority import step_aside
from service.translation.attention import Maps
from service.translation.errors import Overloaded

MOST_WAITING = 8


def _prepare() -> None:
    """What takes long is done when there is something to draw, and by the thread that draws."""
    step_aside()
    from matplotlib.backends import backend_agg  # noqa: F401

    # Modules stay. The collector need not look through them again and again, which stops everybody.
    gc.freeze()


class Painter:
    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "figures", initializer=_prepare)
        self._waiting = 0

    async def heatmap(self, maps: Maps) -> bytes:
        """A PNG, see ``draw``; raises ``Overloaded`` where too many are asked for at once."""
        if self._waiting >= MOST_WAITING:
            raise Overloaded
        self._waiting += 1
        try:
            return await asyncio.wrap_future(self._thread.submit(draw, maps))
        finally:
            self._waiting -= 1

    async def close(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)
