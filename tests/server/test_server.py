"""Graceful shutdown of a real server, as seen by its clients."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest

from tests.support.server import Server, running, running_requests
from tests.support.toy import put_bundle
from tests.support.worker_processes import WORKERS

pytestmark = pytest.mark.slow

CLIENTS = 40
GONE = "gone"
CUT = "cut"


@pytest.fixture
def bundles(tmp_path: Path) -> Path:
    put_bundle(tmp_path / "bundles", "shout-de-en", "de", "en")
    return tmp_path / "bundles"


def body(text: str) -> dict[str, str]:
    return {"q": text, "source": "de", "target": "en"}


async def ask_until_it_is_gone(
    server: Server, number: int, *, keep_alive: bool
) -> list[tuple[float, float, int | str]]:
    """Send requests until the server is gone; returns start, end and outcome of each."""
    heard: list[tuple[float, float, int | str]] = []
    text = f"wort {number} " * (number % 3 + 1)

    async def ask(client: httpx.AsyncClient) -> int | str:
        try:
            response = await client.post("/translate", json=body(text))
        except httpx.ConnectError:
            return GONE
        except httpx.TransportError as error:
            return f"{CUT}: {error!r}"
        if response.status_code == 200:
            assert response.json()["translatedText"] == text.upper()
        else:
            assert response.headers["retry-after"]
            assert response.headers["connection"] == "close"
        return response.status_code

    async with httpx.AsyncClient(base_url=server.address, timeout=60, verify=False) as client:
        while not heard or heard[-1][2] in {200, 503}:
            asked = time.monotonic()
            if keep_alive:
                outcome = await ask(client)
            else:
                async with httpx.AsyncClient(
                    base_url=server.address, timeout=60, verify=False
                ) as fresh:
                    outcome = await ask(fresh)
            heard.append((asked, time.monotonic(), outcome))
            if outcome == 503:
                await asyncio.sleep(0.02)
    return heard


@pytest.mark.parametrize(
    ("number", "keep_alive"),
    [(signal.SIGTERM, True), (signal.SIGINT, False)],
    ids=["kept", "fresh"],
)
async def test_accepted_requests_are_answered_and_new_ones_refused(
    bundles: Path, number: signal.Signals, keep_alive: bool
) -> None:
    with running(bundles, "--step-seconds", "0.01") as server:
        asking = [
            asyncio.create_task(ask_until_it_is_gone(server, n, keep_alive=keep_alive))
            for n in range(CLIENTS)
        ]
        async with httpx.AsyncClient(base_url=server.address) as client:
            while await running_requests(client) < CLIENTS * 3 / 4:
                await asyncio.sleep(0.01)
        signalled = time.monotonic()
        server.process.send_signal(number)
        heard = [answer for of_one in await asyncio.gather(*asking) for answer in of_one]
        code = await asyncio.to_thread(server.process.wait, 30)
    outcomes = Counter(outcome for _, _, outcome in heard)
    assert outcomes.keys() >= {200, 503, GONE}, outcomes
    # The kernel resets connections that arrive while the listener closes; none was accepted.
    assert all(asked > signalled for asked, _, outcome in heard if outcome not in {200, 503, GONE})
    assert outcomes[200] > CLIENTS / 2
    across = [outcome for asked, answered, outcome in heard if asked < signalled < answered]
    assert across.count(200) > CLIENTS / 4
    assert code == (0 if number == signal.SIGTERM else 130)
    assert "Traceback" not in server.log.read_text()


async def test_request_beyond_shutdown_time_gets_503(bundles: Path) -> None:
    with running(bundles, "--step-seconds", "0.2", shutdown_seconds=1) as server:
        async with httpx.AsyncClient(base_url=server.address, timeout=60, verify=False) as client:
            working = asyncio.create_task(client.post("/translate", json=body("wort " * 10)))
            # The translation and this request for /metrics.
            while await running_requests(client) < 2:
                await asyncio.sleep(0.01)
            server.process.terminate()
            answer = await working
            assert answer.status_code == 503
            assert answer.json() == {
                "error": "the service shut down before this was done; try again"
            }
        assert await asyncio.to_thread(server.process.wait, 30) == 0
    assert "1 requests were not done in 1" in server.log.read_text()


def test_idle_server_stops_with_open_connections(bundles: Path) -> None:
    with running(bundles) as server, httpx.Client(base_url=server.address) as client:
        assert client.get("/livez").status_code == 200
        with socket.create_connection(("127.0.0.1", server.port)) as silent:
            silent.sendall(b"POST /translate HTTP/1.1\r\n")
            server.process.terminate()
            assert server.process.wait(20) == 0


def test_a_server_stops_while_it_loads(bundles: Path) -> None:
    with running(bundles, "--load-seconds", "1", ready=False) as server:
        server.process.terminate()
        assert server.process.wait(20) == 0
    assert "Traceback" not in server.log.read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_second_signal_ends_the_process_at_once(bundles: Path, number: signal.Signals) -> None:
    with running(bundles, "--load-seconds", "600", ready=False) as server:
        for _ in range(3):
            server.process.send_signal(number)
        time.sleep(0.6)
        assert server.process.poll() is None
        server.process.send_signal(number)
        assert server.process.wait(20) == 128 + number


def test_a_hangup_signal_reloads(bundles: Path) -> None:
    with running(bundles, reload_seconds=0) as server:
        put_bundle(bundles, "shout-en-de", "en", "de")
        server.process.send_signal(signal.SIGHUP)
        while len(httpx.get(server.address + "/models").json()["models"]) < 2:
            time.sleep(0.02)


def test_connections_beyond_the_file_limit_replace_idle_ones(bundles: Path) -> None:
    with running(bundles, "--file-limit", "160") as server, contextlib.ExitStack() as open_ones:
        idle = []
        for _ in range(200):
            idle.append(socket.create_connection(("127.0.0.1", server.port)))
            open_ones.callback(idle[-1].close)
        for _ in range(20):
            assert httpx.get(server.address + "/livez").status_code == 200
        # The oldest has been closed, and the youngest has not.
        assert idle[0].recv(1) == b""
        idle[-1].sendall(b"GET /livez HTTP/1.1\r\nhost: a\r\n\r\n")
        assert idle[-1].recv(12) == b"HTTP/1.1 200"
    log = server.log.read_text()
    # One line of each process that has so many.
    assert 1 <= log.count("connections are open") <= max(1, WORKERS)
    assert "Traceback" not in log
    assert len(log.splitlines()) < 20


def test_server_on_all_ipv6_addresses_answers_ipv4_too(bundles: Path) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    with running(bundles, host="::") as server:
        for host in ("127.0.0.1", "[::1]"):
            assert httpx.get(f"http://{host}:{server.port}/livez").status_code == 200


@pytest.mark.parametrize(("proxies", "second"), [("", 429), ("127.0.0.1", 403)])
def test_forwarded_addresses_are_believed_from_trusted_proxies_only(
    bundles: Path, proxies: str, second: int
) -> None:
    """A caller that could choose its address would evade the limit on wrong keys."""
    limits = {"api_keys": "required", "requests_per_minute": 1, "trusted_proxies": proxies}
    with running(bundles, **limits) as server:
        statuses = [
            httpx.post(
                f"{server.address}/translate",
                json=body("ja"),
                headers={"x-api-key": "wrong", "x-forwarded-for": address},
            ).status_code
            for address in ("192.0.2.1", "192.0.2.2")
        ]
    assert statuses == [403, second]
