"""Tests of Ray Serve with two replicas, one of which is killed: answers, metrics, health."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.catalogue.errors import NotReady
from tests.support.books import Books, accepted, outcomes, read_books, series
from tests.support.programs import ROOT
from tests.support.ray_server import MARK, RayServer, processes_of, running
from tests.support.waiting import wait_until

pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]

REQUESTS, CLIENTS, REPLICAS = 200, 16, 2
PATIENCE = 120.0
"""Seconds, for a request of a client and for waiting for a replica."""
WORDS = (
    *("Hund", "Katze", "Mann", "Frau", "Kind", "Ball", "Haus", "Baum"),
    *("Auto", "Fahrrad", "Pferd", "Vogel", "Junge", "Tisch", "Boot"),
)

TEXTS = [
    f"Ein {a} {verb} ein {b}." for verb, a, b in itertools.product(("sieht", "und"), WORDS, WORDS)
]


def started(books: Books) -> float:
    return books["process_start_time_seconds", ()]


def translated(books: Books) -> float:
    found = series(books, "nmt_requests_total").items()
    return sum(n for (_, outcome, route), n in found if (outcome, route) == ("ok", "/translate"))


def balance(books: Books) -> bool:
    return accepted(books) == sum(outcomes(books).values()) + books["nmt_requests_running", ()]


@dataclass
class Heard:
    """Outcomes of all clients together."""

    translations: list[str] = field(default_factory=list)
    refused: list[tuple[int, str | None]] = field(default_factory=list)
    """Status and ``Retry-After`` of each answer without a translation."""


@dataclass
class Aftermath:
    heard: Heard
    before: dict[int, Books]
    """Metrics by port after half of the requests, just before one replica is killed."""
    after: dict[int, Books]
    killed: int
    replicas: tuple[set[int], set[int]]
    """Process ids before and after."""
    log: str


@pytest.fixture(scope="module")
def aftermath(tmp_path_factory: pytest.TempPathFactory) -> Aftermath:
    directory = tmp_path_factory.mktemp("ray")
    port, *ports = free_ports(1 + 2 * REPLICAS)
    # A range must consist of consecutive ports.
    first = ports[0]
    arguments = [f"min_replicas={REPLICAS}", f"max_replicas={REPLICAS}", "cpus=1"]
    arguments.append(f"metrics_ports={first}-{first + 2 * REPLICAS - 1}")
    settings = {"bundles": ROOT / "bundles", "state": directory / "state"}
    with running(port, directory / "log", *arguments, **settings) as server:
        range_ = range(first, first + 2 * REPLICAS)
        heard, half = Heard(), threading.Event()
        with ThreadPoolExecutor(CLIENTS) as clients:
            asking = [clients.submit(ask, server, text, heard, half) for text in TEXTS[:REQUESTS]]
            assert half.wait(PATIENCE)
            before = books(range_)
            processes = replicas(server)
            killed = min(processes)
            os.kill(killed, signal.SIGKILL)
            for each in asking:
                each.result()
        wait_until(lambda: len(replicas(server) - {killed}) == REPLICAS)
        after: dict[int, Books] = {}

        def successor_translates() -> bool:
            after.clear()
            after.update(books(range_))
            return len(after) == REPLICAS and translated(max(after.values(), key=started)) > 0

        wait_until(lambda: asked_once_more(server) and successor_translates())
        return Aftermath(
            heard,
            before,
            after,
            killed,
            (processes, replicas(server)),
            server.log.read_text(encoding="utf-8"),
        )


def test_every_request_is_answered_if_the_client_retries(aftermath: Aftermath) -> None:
    assert len(aftermath.heard.translations) == REQUESTS
    assert all(text.startswith("A") for text in aftermath.heard.translations)
    assert {status for status, _ in aftermath.heard.refused} <= {503}
    assert all(after is not None for _, after in aftermath.heard.refused)


def test_a_killed_replica_is_replaced_and_metrics_of_each_balance(aftermath: Aftermath) -> None:
    before, after = aftermath.replicas
    assert aftermath.killed not in after
    assert len(after) == REPLICAS
    assert len(after - before) == 1
    assert len(aftermath.before) == REPLICAS
    assert all(translated(each) > 0 for each in aftermath.before.values())
    assert all(balance(each) for each in (*aftermath.before.values(), *aftermath.after.values()))
    survivors = {started(each) for each in aftermath.before.values()}
    assert sum(started(each) in survivors for each in aftermath.after.values()) == REPLICAS - 1


@pytest.fixture
async def replica(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """A replica in this process, without Ray, whose models are being loaded."""
    # Also ignores the warnings of Ray's own modules at import.
    pytest.importorskip("ray.serve")
    from service.ray import deployment as ray
    from service.ray.options import Arguments, plan_of
    from service.settings import Settings

    for name in ("configure", "prepare_process", "spare_what_stays"):
        # They would change the whole process, which is that of the tests.
        monkeypatch.setattr(ray, name, lambda *_: None)
    bundles = tmp_path / "bundles"
    shutil.copytree(ROOT / "bundles" / "general-de-en", bundles / "general-de-en")
    monkeypatch.setenv("DRAGOMAN_BUNDLES", str(bundles))
    monkeypatch.setenv("DRAGOMAN_STATE", str(tmp_path / "state"))
    (port,) = free_ports(1)
    arguments = Arguments(cpus=1, gpus=0, metrics_ports=str(port))
    made = ray.Replica(plan_of(arguments, Settings.from_environment()))
    made.bundles = bundles
    yield made


async def test_replica_is_replaced_after_an_engine_died(replica: Any) -> None:
    app = await replica.__serve_build_asgi_app__()
    async with app.router.lifespan_context(app):
        await replica.check_health()
        await replica._service.repository.catalogue.models[0].engine.close()
        with pytest.raises(Exception, match="the engine of general-de-en has stopped"):
            await replica.check_health()


async def test_replica_that_never_loads_is_replaced_and_reports_why(replica: Any) -> None:
    (replica.bundles / "general-de-en" / "tokenizer.model").write_bytes(b"")
    app = await replica.__serve_build_asgi_app__()
    async with app.router.lifespan_context(app):
        with pytest.raises(NotReady, match="general-de-en"):
            await replica.check_health()


async def test_replica_whose_bundles_were_removed_stays_healthy(replica: Any) -> None:
    app = await replica.__serve_build_asgi_app__()
    async with app.router.lifespan_context(app):
        await replica.check_health()
        shutil.rmtree(replica.bundles / "general-de-en")
        await replica._service.reloader.reload()
        await replica.check_health()


def ask(server: RayServer, text: str, heard: Heard, half: threading.Event) -> None:
    """Send as a patient client does: answers that say when to retry are retried then."""
    deadline = time.monotonic() + PATIENCE
    body = {"q": text, "source": "de", "target": "en"}
    while True:
        assert time.monotonic() < deadline, f"no replica translates {text!r}"
        try:
            answer = httpx.post(f"{server.address}/translate", json=body, timeout=PATIENCE)
        except httpx.TransportError:
            # The connection ended with the replica.
            time.sleep(0.5)
            continue
        if answer.status_code == httpx.codes.OK:
            break
        heard.refused.append((answer.status_code, answer.headers.get("retry-after")))
        time.sleep(float(answer.headers.get("retry-after", 1)))
    heard.translations.append(answer.json()["translatedText"])
    if len(heard.translations) >= REQUESTS // 2:
        half.set()


def asked_once_more(server: RayServer) -> bool:
    ask(server, "Ein Hund.", Heard(), threading.Event())
    return True


def books(ports: range) -> dict[int, Books]:
    found = {}
    for port in ports:
        with contextlib.suppress(httpx.TransportError):
            text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=10).text
            found[port] = read_books(text)
    return found


def replicas(server: RayServer) -> set[int]:
    with open(f"/proc/{server.process.pid}/environ", "rb") as file:
        variables = dict(line.split(b"=", 1) for line in file.read().split(b"\0") if b"=" in line)
    found = set()
    for each in processes_of(variables[MARK.encode()].decode()):
        with contextlib.suppress(OSError):
            name = Path(f"/proc/{each}/cmdline").read_bytes()
            if name.startswith(b"ray::ServeReplica"):
                found.add(each)
    return found


def free_ports(number: int) -> list[int]:
    """A free port followed by consecutive free ports."""
    for first in range(21000, 29000, 16):
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in range(first, first + number):
                probe = held.enter_context(socket.socket())
                probe.bind(("127.0.0.1", port))
            return list(range(first, first + number))
    raise AssertionError("no ports are free")
