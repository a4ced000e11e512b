"""Tests of the load generator against a slow server."""

from __future__ import annotations

import asyncio
import statistics
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from benchmarks.client import LOST, Plan, send
from tests.support.waiting import cancelled

REFUSED = "refuse me"


class SlowServer:
    """Answers requests one by one with a delay; refuses those that ask for it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._turn = asyncio.Lock()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                body = await reader.readexactly(length)
                async with self._turn:
                    await asyncio.sleep(self._seconds)
                status = b"503 Busy" if body == REFUSED.encode() else b"200 OK"
                writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 2\r\n\r\n{}")
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@contextmanager
def slow_server(seconds: float) -> Iterator[str]:
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(SlowServer(seconds).talk, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def end() -> None:
        server.close()
        # Accepted connections get their tasks, which then close them.
        for _ in range(10):
            await asyncio.sleep(0)
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        await cancelled(*tasks)
        await asyncio.sleep(0)

    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_clients_in_turn_are_all_answered_and_refused_requests_are_lost() -> None:
    with slow_server(0.005) as url:
        heard = send(url, Plan(("a", "b", REFUSED), seconds=0.3, clients=3))
    assert {each.body for each in heard} == {0, 1, 2}
    assert all((each.latency == LOST) == (each.body == 2) for each in heard)
    with pytest.raises(RuntimeError, match="the clients of nowhere failed"):
        send("nowhere", Plan(("a",), seconds=0.1, clients=1))


def test_latency_counts_from_the_due_time_of_a_request_and_a_hopeless_rate_ends() -> None:
    # Requests arrive twice as fast as they are answered, so later ones have to wait.
    with slow_server(0.02) as url:
        heard = send(url, Plan(("a",), seconds=0.5, rate=100, hopeless_seconds=100))
    waits = [each.latency for each in heard]
    assert len(waits) > 25
    assert statistics.mean(waits[-5:]) > statistics.mean(waits[:5])
    with slow_server(0.5) as url:
        heard = send(url, Plan(("a",), seconds=30, rate=200, hopeless_seconds=0.1))
    assert len(heard) < 100
    assert [each.latency for each in heard].count(LOST) > 40
