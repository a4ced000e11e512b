"""The front of a worker in the test process, whose owner is a service in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from models.bundle.manifest import Manifest
from service.api.draining import Drain
from service.settings import Settings
from service.translation.loaded_model import LoadedModel
from service.workers.decode_messages import OfferedModel
from service.workers.front import open_front
from service.workers.owner_link import OpenModel, without_network
from tests.support.toy import Both, ByteTokenizer

PASSED_ON = 299
"""Status of requests that the front passes on."""


async def passed_on(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("passed on", PASSED_ON)(scope, receive, send)


def open_shouting(offered: OfferedModel) -> LoadedModel:
    manifest = Manifest.from_json(Path(offered.path, "manifest.json").read_text(encoding="utf-8"))
    return without_network(manifest, Both(ByteTokenizer()))


@asynccontextmanager
async def front_of(
    settings: Settings,
    owner: Path,
    drain: Drain | None = None,
    key: str = "",
    open_model: OpenModel = open_shouting,
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a front that has taken the owner's offer."""
    opened = open_front(settings, owner, passed_on, drain or Drain(), open_model)
    async with (
        opened as front,
        httpx.AsyncClient(transport=httpx.ASGITransport(front), base_url="http://front") as client,
    ):
        await taken(client, key)
        yield client


async def taken(client: httpx.AsyncClient, key: str = "") -> None:
    """Wait until the front answers plain requests itself."""
    body = {"q": "a", "source": "de", "target": "en", "api_key": key}
    while (await client.post("/translate", json=body)).status_code != 200:
        await asyncio.sleep(0.01)
