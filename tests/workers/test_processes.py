"""Workers and owner as processes: kills, restarts, hang-ups, streams and large bodies."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from starlette.responses import Response, StreamingResponse

from tests.support.server import Server, running, running_requests
from tests.support.toy import put_bundle
from tests.support.waiting import until
from tests.support.worker_processes import ROOT, Workers, WorkersTransport, owned, started

pytestmark = pytest.mark.slow

CLIENTS = 24
BUNDLE = ROOT / "bundles" / "general-de-en"
BODY = {"q": "wort " * 6, "source": "de", "target": "en"}
SPLIT = "service is restarting"


@pytest.fixture
def bundles(tmp_path: Path) -> Path:
    put_bundle(tmp_path / "bundles", "shout-de-en", "de", "en")
    return tmp_path / "bundles"


@pytest.fixture(scope="module")
def workers() -> Any:
    with started(2) as workers:
        yield workers


def pids_of(server: Server, name: str) -> list[int]:
    log = server.log.read_text(encoding="utf-8")
    return [int(pid) for pid in re.findall(rf"{name} is process (\d+)", log)]


async def ask_until(
    server: Server, done: asyncio.Event, outcomes: Counter[Any], translations: set[str]
) -> None:
    async with httpx.AsyncClient(base_url=server.address, timeout=60, verify=False) as client:
        while not done.is_set():
            try:
                response = await client.post("/translate", json=BODY)
            except httpx.TransportError:
                outcomes["cut"] += 1
                continue
            outcomes[response.status_code] += 1
            if response.status_code == 200:
                translations.add(response.json()["translatedText"])
            else:
                assert int(response.headers["retry-after"]) >= 1
                assert SPLIT in response.json()["error"] or "being loaded" in response.text
                await asyncio.sleep(0.02)


async def kill_under_load(server: Server, name: str) -> set[str]:
    """Kill a process while clients send requests until it works again; returns translations."""
    outcomes: Counter[Any] = Counter()
    translations: set[str] = set()
    done = asyncio.Event()
    asking = [
        asyncio.create_task(ask_until(server, done, outcomes, translations)) for _ in range(CLIENTS)
    ]
    await until(lambda: outcomes[200] >= 2 * CLIENTS)
    os.kill(pids_of(server, name)[-1], signal.SIGKILL)
    await until(lambda: len(pids_of(server, name)) >= 2, 0.01)
    if name == "owner":
        await until(lambda: outcomes[503])
    answered = outcomes[200]
    await until(lambda: outcomes[200] >= answered + 2 * CLIENTS)
    done.set()
    await asyncio.gather(*asking)
    async with httpx.AsyncClient(base_url=server.address, verify=False) as client:
        # Requests of the killed worker were cancelled; only this one is left.
        while await running_requests(client) > 1:
            await asyncio.sleep(0.01)
    assert outcomes.keys() <= ({200, 503} if name == "owner" else {200, "cut"}), outcomes
    assert f"{name} (process " in server.log.read_text()
    return translations


@pytest.mark.parametrize("real", [False, True], ids=["tunnelled", "prepared in workers"])
async def test_killed_process_is_restarted_and_other_requests_are_answered(
    bundles: Path, real: bool
) -> None:
    if real:
        # Workers read the tokenizer of this bundle, and no file of the other one.
        (bundles / BUNDLE.name).symlink_to(BUNDLE)
        shutil.rmtree(bundles / "shout-de-en")
    options = ["--real"] if real else ["--step-seconds", "0.005"]
    with running(bundles, *options, workers=2, threads=1) as server:
        translations = await kill_under_load(server, "worker 2")
        translations |= await kill_under_load(server, "owner")
        server.process.terminate()
        assert await asyncio.to_thread(server.process.wait, 60) == 0
    assert len(translations) == 1
    assert ("texts are processed by the owner" in server.log.read_text()) != real


def test_processes_end_with_a_killed_supervisor(bundles: Path) -> None:
    with running(bundles, workers=2) as server:
        pids = [pids_of(server, name)[0] for name in ("owner", "worker 1", "worker 2")]
        server.process.kill()
        server.process.wait()
        while any(map(is_running, pids)):
            time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        # An orphan that init has not reaped is a zombie.
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def app_of(seen: list[Any]) -> FastAPI:
    app = FastAPI()

    @app.post("/length")
    async def length(request: Request) -> Response:
        return Response(str(len(await request.body())))

    @app.post("/unread")
    async def unread() -> Response:
        return Response("refused", 413)

    @app.get("/large")
    async def large() -> Response:
        return Response(b"x" * 3_000_000)

    @app.get("/stream")
    async def stream(request: Request) -> Response:
        async def parts() -> Any:
            yield b"first"
            try:
                while not await request.is_disconnected():
                    yield b"more" * 10_000
                    await asyncio.sleep(0.001)
            finally:
                seen.append("closed")

        return StreamingResponse(parts())

    @app.get("/broken")
    async def broken() -> Response:
        async def parts() -> Any:
            yield b"first"
            raise RuntimeError("broken")

        return StreamingResponse(parts())

    @app.get("/scope/{rest:path}")
    async def scope(request: Request) -> dict[str, Any]:
        return {
            "url": str(request.url),
            "path": request.url.path,
            "query": request.url.query,
            "client": request.client is not None and request.client.host,
            "header": request.headers.getlist("x-many"),
        }

    return app


async def test_bodies_heads_and_streams_pass_unchanged(workers: Workers) -> None:
    seen: list[Any] = []
    async with (
        owned(app_of(seen), workers.path),
        httpx.AsyncClient(
            transport=WorkersTransport(workers), base_url="http://test", timeout=60
        ) as client,
    ):
        for size in (0, 1, 100_000, 3_000_000):
            assert (await client.post("/length", content=b"x" * size)).text == str(size)
        for _ in range(4):
            assert (await client.post("/unread", content=b"x" * 3_000_000)).status_code == 413
        expecting = {"expect": "100-continue"}
        assert (await client.post("/length", content=b"abc", headers=expecting)).text == "3"
        assert len((await client.get("/large")).content) == 3_000_000
        headers = [("x-many", "a"), ("x-many", "b")]
        found = (await client.get("/scope/a%20b?c=%C3%A4", headers=headers)).json()
        assert found == {
            "url": "http://test/scope/a b?c=%C3%A4",
            "path": "/scope/a b",
            "query": "c=%C3%A4",
            "client": "127.0.0.1",
            "header": ["a", "b"],
        }
        async with client.stream("GET", "/stream") as response:
            assert (await anext(response.aiter_bytes())).startswith(b"first")
        await until(lambda: seen)
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get("/broken")


async def test_blanks_at_the_end_of_a_header_are_no_part_of_it(workers: Workers) -> None:
    head = b"GET /scope/a HTTP/1.1\r\nhost: test\r\nx-many: a b \t\r\nconnection: close\r\n\r\n"
    async with owned(app_of([]), workers.path):
        reader, writer = await asyncio.open_connection("127.0.0.1", workers.port)
        writer.write(head)
        answer = await reader.read()
        writer.close()
    assert b'"header":["a b"]' in answer


async def test_requests_without_an_owner_are_refused_in_the_shape_of_their_dialect(
    workers: Workers,
) -> None:
    async with httpx.AsyncClient(
        transport=WorkersTransport(workers), base_url="http://test"
    ) as client:
        for path, field in (("/translate", "error"), ("/v2/translate", "message")):
            response = await client.post(path, json=BODY)
            assert (response.status_code, response.headers["retry-after"]) == (503, "1")
            assert response.headers["access-control-allow-origin"] == "*"
            assert SPLIT in response.json()[field]
