"""Fixtures of the DeepL tests: a client of a service, and its API keys."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from service.bootstrap import running
from service.settings import Settings
from service.state.database import FILE_NAME, Database
from service.state.keys import KeyStore
from tests.support.shouting import load_shouting


@asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a newly started service."""
    async with running(settings, load_shouting) as service:
        transport = httpx.ASGITransport(service.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            yield client


@pytest.fixture
async def keys(settings: Settings) -> AsyncIterator[KeyStore]:
    """The key store of the running service, as ``dragoman keys`` opens it."""
    async with Database(settings.state / FILE_NAME) as database:
        yield KeyStore(database)


def authorised(key: str) -> dict[str, str]:
    return {"authorization": f"DeepL-Auth-Key {key}"}
