from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from service.state.database import FILE_NAME, Database


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | SecretStr:
    """A file, and a database of a server: each test runs with both."""
    if request.param == "sqlite":
        return tmp_path / FILE_NAME
    address: SecretStr = request.getfixturevalue("postgres_address")
    return address


@pytest.fixture
async def database(place: Path | SecretStr) -> AsyncIterator[Database]:
    async with Database(place, upgrade=True) as database:
        yield database
