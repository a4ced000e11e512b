"""HTTP clients of an app in the test process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from service.bootstrap import LoadModel, running
from service.settings import Settings
from tests.support.shouting import load_shouting


def client_of(app: Any, base_url: str = "http://test") -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=base_url)


@asynccontextmanager
async def connected(
    settings: Settings, load: LoadModel = load_shouting, **changes: object
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a newly started service, with these settings changed."""
    settings = settings.model_copy(update=changes)
    async with running(settings, load) as service, client_of(service.app) as client:
        yield client
