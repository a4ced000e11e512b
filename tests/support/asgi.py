"""HTTP clients of an app in the test process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

# httpx would import it in the first test, whose event loop would wait for that.
import httpcore  # noqa: F401
import httpx

from service.bootstrap import running
from service.loading.loader import LoadModel
from service.settings import Settings
from tests.support.toy import load_shouting
from tests.support.worker_processes import WORKERS, WorkersTransport, owned, shared


@asynccontextmanager
async def client_of(app: Any, base_url: str = "http://test") -> AsyncIterator[httpx.AsyncClient]:
    """A client of the app, through worker processes if ``TEST_WORKERS`` asks for some."""
    if not WORKERS:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url=base_url) as client:
            yield client
        return
    workers = shared()
    async with (
        owned(app, workers.path),
        httpx.AsyncClient(
            transport=WorkersTransport(workers), base_url=base_url, timeout=60
        ) as client,
    ):
        yield client


@asynccontextmanager
async def connected(
    settings: Settings, load: LoadModel = load_shouting, **changes: object
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a newly started service, with these settings changed."""
    settings = settings.model_copy(update=changes)
    async with running(settings, load) as service, client_of(service.app) as client:
        yield client
