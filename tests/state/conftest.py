from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from service.state.database import Database


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    async with Database(None) as database:
        yield database
