from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from service.state.database import Database


@pytest.fixture
async def database(place: Path | SecretStr) -> AsyncIterator[Database]:
    async with Database(place, upgrade=True) as database:
        yield database
