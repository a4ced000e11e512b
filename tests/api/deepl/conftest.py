"""Fixtures of the DeepL tests: a client of a service, and its API keys."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from service.settings import Settings
from service.state.database import FILE_NAME, Database
from service.state.keys import KeyStore


@pytest.fixture
async def keys(settings: Settings) -> AsyncIterator[KeyStore]:
    """The key store of the running service, as ``dragoman keys`` opens it."""
    async with Database(settings.state / FILE_NAME) as database:
        yield KeyStore(database)


def authorised(key: str) -> dict[str, str]:
    return {"authorization": f"DeepL-Auth-Key {key}"}
