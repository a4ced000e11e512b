"""A worker in the test process, whose owner is a service in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from models.bundle.manifest import Manifest
from service.api.draining import Drain
from service.bootstrap import Service, running
from service.catalogue.loaded_model import LoadedModel
from service.loading.tokenizers import without_network
from service.settings import Settings
from service.workers.owner_link import OpenModel, socket_beside
from service.workers.worker import WorkerApp
from tests.support.toy import Both, ByteTokenizer, load_shouting
from tests.support.worker_processes import owned


def open_shouting(path: Path, _name: str, _version: str) -> LoadedModel:
    manifest = Manifest.from_json((path / "manifest.json").read_text(encoding="utf-8"))
    return without_network(manifest, Both(ByteTokenizer()))


@asynccontextmanager
async def owning(settings: Settings, owner: Path) -> AsyncIterator[Service]:
    """A service whose workers find it at the socket ``owner``."""
    async with (
        running(settings, load_shouting, socket_beside(owner)) as service,
        owned(service.app, owner),
    ):
        yield service


@asynccontextmanager
async def worker_of(
    settings: Settings,
    owner: Path,
    drain: Drain | None = None,
    open_model: OpenModel | None = open_shouting,
) -> AsyncIterator[tuple[WorkerApp, httpx.AsyncClient]]:
    """A worker that has taken the owner's offer, and a client of it."""
    app = WorkerApp(settings, owner, drain or Drain(), open_model)
    transport = httpx.ASGITransport(app)
    async with (
        app.front.app.router.lifespan_context(app.front.app),
        httpx.AsyncClient(transport=transport, base_url="http://worker") as client,
    ):
        await ready(app)
        yield app, client
        await app.proxy.close()


async def ready(app: WorkerApp) -> None:
    """Wait until a worker answers translation requests itself."""
    while not app.front.link.ready:
        await asyncio.sleep(0.01)
