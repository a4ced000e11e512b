from __future__ import annotations

import asyncio
import threading

import pytest

from service.figures import painter
from service.figures.painter import MOST_WAITING, Painter
from service.translation.attention import Maps
from service.translation.errors import Overloaded
from tests.figures.test_heatmap import make

pytestmark = pytest.mark.anyio


async def test_pictures_are_drawn_one_at_a_time_on_one_thread_and_more_than_a_few_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[str] = []
    gate = threading.Event()

    def draw(maps: Maps) -> bytes:
        threads.append(threading.current_thread().name)
        gate.wait()
        return b"picture"

    monkeypatch.setattr(painter, "draw", draw)
    painting = Painter()
    drawn = [asyncio.create_task(painting.heatmap(make())) for _ in range(MOST_WAITING)]
    await asyncio.sleep(0.01)
    assert len(threads) == 1
    with pytest.raises(Overloaded):
        await painting.heatmap(make())
    gate.set()
    assert set(await asyncio.gather(*drawn)) == {b"picture"}
    assert await painting.heatmap(make()) == b"picture"
    assert len(set(threads)) == 1
    await painting.close()
    assert threads[0] not in {thread.name for thread in threading.enumerate()}


async def test_a_picture_is_a_png() -> None:
    painting = Painter()
    assert (await painting.heatmap(make())).startswith(b"\x89PNG")
    await painting.close()
