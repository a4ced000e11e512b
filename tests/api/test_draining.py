from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route

from service.api.draining import Drain
from service.api.middleware import RefuseWhileDraining, RequestLog
from service.observability.metrics import Metrics
from tests.support.waiting import cancelled, until


class Slow:
    """An app that streams a word, waits for its gate, and streams another."""

    def __init__(self) -> None:
        self.drain = Drain()
        self.metrics = Metrics()
        self.gate = asyncio.Event()
        self.app = Starlette(
            routes=[
                Route("/stream", self.stream),
                Route("/wait", self.wait, methods=["POST"]),
                Route("/livez", self.livez),
            ]
        )
        self.app.add_middleware(RefuseWhileDraining, drain=self.drain)
        self.app.add_middleware(RequestLog, metrics=self.metrics)

    async def stream(self, request: Request) -> StreamingResponse:
        async def words() -> AsyncIterator[str]:
            yield "one "
            await self.gate.wait()
            yield "two"

        return StreamingResponse(words())

    async def wait(self, request: Request) -> PlainTextResponse:
        await self.gate.wait()
        return PlainTextResponse("done")

    async def livez(self, request: Request) -> PlainTextResponse:
        return PlainTextResponse("alive")

    def client(self) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(self.app)
        return httpx.AsyncClient(transport=transport, base_url="http://test")

    def failures(self, reason: str) -> float | None:
        return self.metrics.registry.get_sample_value(
            "nmt_request_failures_total", {"reason": reason}
        )

    async def until_running(self, requests: int) -> None:
        await until(lambda: self.drain.running >= requests, 0)


async def test_accepted_stream_finishes_during_the_drain() -> None:
    slow = Slow()
    async with slow.client() as client:
        streamed = asyncio.create_task(client.get("/stream"))
        await slow.until_running(1)
        slow.drain.begin()
        assert (await client.get("/stream")).status_code == 503
        slow.gate.set()
        assert (await streamed).text == "one two"
        assert await slow.drain.finished(5)


async def test_probes_are_answered_during_the_drain_and_do_not_delay_it() -> None:
    slow = Slow()
    async with slow.client() as client:
        assert "connection" not in (await client.get("/livez")).headers
        slow.drain.begin()
        answer = await client.get("/livez")
        assert (answer.status_code, answer.headers["connection"]) == (200, "close")
    assert await slow.drain.finished(0.1)


async def test_drain_reads_the_body_of_a_refused_request() -> None:
    slow = Slow()
    slow.drain.begin()
    read = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal read
        for _ in range(3):
            read += 1
            yield b"x" * 1000

    async with slow.client() as client:
        refused = await client.post("/wait", content=pieces())
    assert refused.status_code == 503
    assert refused.json() == {"error": "the service is shutting down; try again"}
    assert refused.headers["retry-after"] == "5"
    assert read == 3
    assert slow.failures("draining") == 1


async def test_request_cut_short_gets_503_and_is_not_counted_as_a_disconnect() -> None:
    slow = Slow()
    async with slow.client() as client:
        waiting = asyncio.create_task(client.post("/wait"))
        await slow.until_running(1)
        slow.drain.begin()
        assert not await slow.drain.finished(0.001)
        assert slow.drain.cut_short() == 1
        answer = await waiting
    assert answer.status_code == 503
    assert answer.json() == {"error": "the service shut down before this was done; try again"}
    assert (slow.failures("shutdown"), slow.failures("disconnect")) == (1, 0)
    assert await slow.drain.finished(5)
    slow = Slow()
    async with slow.client() as client:
        waiting = asyncio.create_task(client.post("/wait"))
        await slow.until_running(1)
        await cancelled(waiting)
    assert (slow.failures("shutdown"), slow.failures("disconnect")) == (0, 1)
    assert slow.drain.running == 0
