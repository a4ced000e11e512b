from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import numpy as np
import pytest

from service.engine.errors import BackendFailed
from service.figures.painter import MOST_WAITING, Painter
from service.translation.errors import Overloaded
from tests.figures.test_heatmap import make
from tests.support.waiting import cancelled, until


@pytest.fixture
async def painter() -> AsyncIterator[Painter]:
    painter = Painter()
    yield painter
    await painter.close()
    assert painter._helpers.processes == []


async def test_pictures_are_pngs_drawn_by_one_process(painter: Painter) -> None:
    first = await painter.heatmap(make())
    process = painter._helpers.processes
    assert first.startswith(b"\x89PNG")
    assert await painter.heatmap(make()) == first
    assert painter._helpers.processes == process


async def test_more_than_a_few_at_once_are_refused(painter: Painter) -> None:
    drawn = [asyncio.create_task(painter.heatmap(make())) for _ in range(MOST_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await painter.heatmap(make())
    assert len(set(await asyncio.gather(*drawn))) == 1


async def test_another_caller_is_drawn_after_one_picture_of_the_first(painter: Painter) -> None:
    done: list[str] = []

    async def draw(caller: str) -> None:
        await painter.heatmap(make(), caller)
        done.append(caller)

    drawn = [asyncio.create_task(draw("a")) for _ in range(MOST_WAITING)]
    await asyncio.sleep(0)
    await asyncio.gather(*drawn, asyncio.create_task(draw("b")))
    assert done.index("b") == 1


async def test_next_picture_is_drawn_after_a_failed_and_a_cancelled_one(painter: Painter) -> None:
    impossible = replace(make(), weights_LHRC=np.zeros((0, 0, 0, 0), np.float32), rows=())
    with pytest.raises(BackendFailed):
        await painter.heatmap(impossible)
    abandoned = asyncio.create_task(painter.heatmap(make()))
    await until(lambda: painter._helpers.processes, 0)
    await cancelled(abandoned)
    assert (await painter.heatmap(make())).startswith(b"\x89PNG")
