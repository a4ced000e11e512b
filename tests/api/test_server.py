"""Tests with a real server: broken connections and unread bodies."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import uvicorn

from models.bundle.manifest import Manifest
from service.bootstrap import Service, build
from service.catalogue.loaded_model import LoadedModel
from service.loading.loader import ModelObserver
from service.settings import Settings
from tests.engine.watching import GatedBackend
from tests.support.toy import ScriptedBackend, make_limits, make_model, shouting
from tests.support.waiting import until

BODY = {"q": "hallo", "source": "de", "target": "en"}


def gated() -> GatedBackend:
    """A backend whose gate is open."""
    backend = GatedBackend(shouting, make_limits())
    backend.gate.set()
    return backend


@dataclass(frozen=True, slots=True)
class Served:
    service: Service
    server: uvicorn.Server
    port: int

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.port}")

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)


@asynccontextmanager
async def served(settings: Settings, backend: GatedBackend) -> AsyncIterator[Served]:
    async def load(
        path: Path, _: Settings, observer_for: Callable[[str], ModelObserver]
    ) -> LoadedModel:
        manifest = Manifest.from_json((path / "manifest.json").read_text(encoding="utf-8"))
        of_its_own = ScriptedBackend(shouting, make_limits())
        mine = backend if manifest.directions[0].source == "de" else of_its_own
        return await make_model(manifest, mine, observer_for(manifest.name))

    service = build(settings, load)
    server = uvicorn.Server(uvicorn.Config(service.app, log_config=None, access_log=False))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        await service.loaded.wait()
        await until(lambda: server.started)
        try:
            yield Served(service, server, listener.getsockname()[1])
        finally:
            backend.gate.set()
            server.should_exit = True
            await serving


async def answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in head[1:-2])
    body = await reader.readexactly(int(headers["content-length"]))
    return int(head[0].split()[1]), headers, body


def post(body: bytes, *headers: str) -> bytes:
    lines = ["POST /translate HTTP/1.1", "host: x", "content-type: application/json", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def test_disconnect_cancels_the_sentences_of_a_request(settings: Settings) -> None:
    backend = gated()
    async with served(settings, backend) as running:
        backend.gate.clear()
        _, writer = await running.connect()
        body = json.dumps({**BODY, "q": "x" * 60}).encode()
        writer.write(post(body, f"content-length: {len(body)}"))
        async with asyncio.timeout(5):
            await until(lambda: running.service.translator.in_flight)
            writer.close()
            await writer.wait_closed()
            await until(lambda: not running.service.translator.in_flight)
        backend.gate.set()
        async with running.client() as client:
            response = await client.post("/translate", json=BODY)
            assert response.json()["translatedText"] == "HALLO"
            metrics = (await client.get("/metrics")).text
    assert len(backend.batch_sizes) < 15
    assert 'outcome="cancelled",route="/translate"' in metrics.replace('model="",', "")
    assert 'nmt_request_failures_total{reason="disconnect"} 1.0' in metrics


async def test_body_refused_by_length_keeps_the_connection_usable(settings: Settings) -> None:
    async with served(settings, gated()) as running, asyncio.timeout(5):
        reader, writer = await running.connect()
        writer.write(post(b"", "content-length: 70000"))
        status, headers, body = await answer(reader)
        assert (status, headers.get("connection")) == (413, None)
        assert b"at most 65536 bytes" in body
        writer.write(b"x" * 70_000)
        good = json.dumps(BODY).encode()
        writer.write(post(good, f"content-length: {len(good)}"))
        assert json.loads((await answer(reader))[2])["translatedText"] == "HALLO"
        writer.close()


async def test_too_large_expect_100_continue_returns_413_and_closes(settings: Settings) -> None:
    async with served(settings, gated()) as running, asyncio.timeout(5):
        reader, writer = await running.connect()
        writer.write(post(b"", "content-length: 70000", "expect: 100-continue"))
        status, headers, _ = await answer(reader)
        assert (status, headers["connection"]) == (413, "close")
        assert await reader.read() == b""
        writer.close()


async def test_chunked_body_is_refused_once_it_is_too_large(settings: Settings) -> None:
    async with served(settings, gated()) as running, asyncio.timeout(5):
        reader, writer = await running.connect()
        writer.write(post(b"", "transfer-encoding: chunked"))
        for _ in range(70):
            writer.write(b"3e8\r\n" + b"x" * 1000 + b"\r\n")
        assert (await answer(reader))[0] == 413
        writer.write(b"0\r\n\r\n")
        good = json.dumps(BODY).encode()
        writer.write(post(good, f"content-length: {len(good)}"))
        assert (await answer(reader))[0] == 200
        writer.close()


async def test_work_beyond_the_queue_gets_503_with_retry_after(settings: Settings) -> None:
    backend = gated()
    async with served(settings, backend) as running, running.client() as client:
        backend.gate.clear()
        full = {**BODY, "q": [f"{number:03} " + "x" * 40 for number in range(40)]}
        asked = asyncio.create_task(client.post("/translate", json=full))
        await until(lambda: running.service.translator.in_flight)
        refused = await client.post("/translate", json={**BODY, "q": ["y" * 50] * 9})
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert refused.json()["error"].startswith("too much is being translated")
        backend.gate.set()
        assert (await asked).status_code == 200


async def test_request_to_a_stopped_engine_gets_503(settings: Settings) -> None:
    async with served(settings, gated()) as running, running.client() as client:
        await running.service.repository.catalogue.models[0].engine.close()
        response = await client.post("/translate", json=BODY)
        assert (response.status_code, response.json()["error"]) == (
            503,
            "the engine is not running",
        )
