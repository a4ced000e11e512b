"""Three replicas behind the balancer of docker/fleet, with PostgreSQL and Redis.

The servers of that Compose file from Debian, as far as they are installed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import deepl
import httpx
import pytest
from pydantic import SecretStr

from tests.support import redis
from tests.support.local_server import answering
from tests.support.postgres import Postgres
from tests.support.programs import ROOT, free_port, python
from tests.support.server import running
from tests.support.toy import put_bundle

pytestmark = pytest.mark.slow
PROGRAM = shutil.which("haproxy")
needs_haproxy = pytest.mark.skipif(PROGRAM is None, reason="haproxy not installed")
CONFIGURATION = ROOT / "docker" / "fleet" / "haproxy.cfg"
TIMES = 4


class Replica:
    """A server that can be ended and started again at its port."""

    def __init__(self, directory: Path, **settings: object) -> None:
        self._directory, self._settings = directory, settings
        self._stack = ExitStack()
        self.port = free_port()
        put_bundle(directory / "bundles", "shout-de-en", "de", "en")

    def start(self) -> None:
        options = ("--port", str(self.port), "--step-seconds", "0.005")
        server = running(self._directory / "bundles", *options, **self._settings)
        self.server = self._stack.enter_context(server)

    def end(self, *, kill: bool = False) -> None:
        process = self.server.process
        process.kill() if kill else process.terminate()
        process.wait()
        self._stack.close()


@contextmanager
def balanced(directory: Path, ports: list[int], ready_status: int = 200) -> Iterator[str]:
    """The balancer before servers of these ports, once each has ``ready_status``; its address."""
    assert PROGRAM is not None
    port = free_port()
    text = CONFIGURATION.read_text(encoding="utf-8").partition("\nresolvers ")[0]
    servers = "\n    ".join(f"server replica{n} 127.0.0.1:{n}" for n in ports)
    text, found = re.subn(r"server-template replica .*", servers, text)
    assert found == 1
    text = text.replace("bind :8000", f"bind 127.0.0.1:{port}").replace("log stdout", "log stderr")
    path = directory / "haproxy.cfg"
    path.write_text(text, encoding="utf-8")
    with (directory / "haproxy.log").open("wb") as log:
        process = subprocess.Popen([PROGRAM, "-db", "-f", str(path)], stdout=log, stderr=log)
    try:
        address = f"http://127.0.0.1:{port}"
        ready = 0
        # Each replica in turn has been found ready.
        while ready < 2 * len(ports):
            assert process.poll() is None, (directory / "haproxy.log").read_text()
            try:
                status = httpx.get(f"{address}/readyz").status_code
                ready = ready + 1 if status == ready_status else 0
            except httpx.TransportError:
                time.sleep(0.05)
        yield address
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fleet")


@pytest.fixture(scope="module")
def replicas(directory: Path, postgres: Postgres) -> Iterator[list[Replica]]:
    if reason := redis.missing() or ("" if PROGRAM else "haproxy not installed"):
        pytest.skip(reason)
    with redis.running() as server:
        yield from started(directory, postgres.create(), server.address)


def started(directory: Path, state: SecretStr, redis: SecretStr) -> Iterator[list[Replica]]:
    settings = {
        "state": state.get_secret_value(),
        "redis": redis.get_secret_value(),
        "trusted_proxies": "127.0.0.1",
        "leave_seconds": 3,
    }
    environment = os.environ | {"DRAGOMAN_STATE": settings["state"]}
    python("-m", "service", "state", "upgrade", env=environment)
    made = [Replica(directory / str(number), **settings) for number in range(3)]
    with ExitStack() as ending:
        for each in made:
            each.start()
            ending.callback(each.end, kill=True)
        yield made


@pytest.fixture(scope="module")
def address(replicas: list[Replica], directory: Path) -> Iterator[str]:
    with balanced(directory, [each.port for each in replicas]) as address:
        yield address


@needs_haproxy
def test_configuration_of_the_balancer_is_valid() -> None:
    subprocess.run([PROGRAM, "-c", "-f", str(CONFIGURATION)], check=True)


@needs_haproxy
def test_balancer_passes_on_no_address_that_a_client_has_sent(tmp_path: Path) -> None:
    class Echo(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            names = ("X-Forwarded-For", "X-Forwarded-Proto")
            body = json.dumps([self.headers.get_all(name) for name in names]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    sent = {"X-Forwarded-For": "203.0.113.77", "X-Forwarded-Proto": "https"}
    with answering(Echo) as server, balanced(tmp_path, [httpx.URL(server).port]) as address:
        assert httpx.get(f"{address}/", headers=sent).json() == [["127.0.0.1"], ["http"]]


@needs_haproxy
def test_client_without_any_replica_is_asked_to_repeat_its_request(tmp_path: Path) -> None:
    with (
        answering(BaseHTTPRequestHandler) as server,
        balanced(tmp_path, [httpx.URL(server).port], ready_status=503) as address,
    ):
        refused = httpx.post(f"{address}/translate", json={"q": "a"})
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    assert "repeat the request" in refused.json()["error"]


@needs_haproxy
def test_request_of_a_frozen_replica_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Frozen(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_POST(self) -> None:
            time.sleep(30)

    text = CONFIGURATION.read_text(encoding="utf-8")
    (tmp_path / "impatient.cfg").write_text(text.replace("timeout server 75s", "timeout server 1s"))
    monkeypatch.setattr(f"{__name__}.CONFIGURATION", tmp_path / "impatient.cfg")
    with answering(Frozen) as server, balanced(tmp_path, [httpx.URL(server).port]) as address:
        refused = httpx.post(f"{address}/translate", json={"q": "a"}, timeout=20)
    assert (refused.status_code, refused.headers["retry-after"]) == (504, "1")
    assert "repeat the request" in refused.json()["message"]


def test_deepls_client_and_maps_meet_one_service(address: str, tmp_path: Path) -> None:
    client = deepl.Translator("any", server_url=address, send_platform_info=False)

    def meet(number: int) -> None:
        terms = {"Hund": f"dog{number}"}
        glossary = client.create_glossary(f"g{number}", "DE", "EN", terms)
        options = {"source_lang": "DE", "target_lang": "EN-GB"}
        text = client.translate_text("Hund", glossary=glossary, **options)
        assert f"dog{number}" in str(text)
        source, target = tmp_path / f"{number}.de.txt", tmp_path / f"{number}.en.txt"
        source.write_text(f"hallo {number}")
        client.translate_document_from_filepath(source, target, **options)
        assert target.read_text() == f"HALLO {number}"
        form = {"q": "ja", "source": "de", "target": "en", "attention": True}
        kept = httpx.post(f"{address}/translate", json=form).json()["id"]
        assert httpx.get(f"{address}/translations/{kept}/attention").status_code == 200
        client.delete_glossary(glossary)

    # The client waits for seconds between questions about a document.
    with ThreadPoolExecutor(TIMES) as pool:
        list(pool.map(meet, range(TIMES)))
    assert client.list_glossaries() == []


class Load:
    """Clients that translate until the context ends, each over a connection of its own."""

    def __init__(self, address: str, clients: int = 16) -> None:
        self._address = address
        self._ended = threading.Event()
        self.outcomes: Counter[str] = Counter()
        self._threads = [threading.Thread(target=self._ask, args=[n]) for n in range(clients)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, number: int) -> None:
        sent = 0
        with httpx.Client(base_url=self._address, timeout=30) as client:
            while not self._ended.is_set():
                sent += 1
                text = f"wort {number} {sent}"
                form = {"q": text, "source": "de", "target": "en"}
                try:
                    answer = client.post("/translate", json=form)
                except httpx.TransportError as error:
                    self.outcomes[repr(error)] += 1
                    continue
                right = answer.status_code == 200 and answer.json()["translatedText"]
                self.outcomes["ok" if right == text.upper() else answer.text] += 1


@pytest.mark.parametrize("kill", [False, True], ids=["ended", "killed"])
def test_replicas_are_replaced_one_by_one_under_load(
    replicas: list[Replica], address: str, kill: bool
) -> None:
    with Load(address) as load:
        for replica in replicas:
            before = load.outcomes["ok"]
            while load.outcomes["ok"] < before + 100:
                time.sleep(0.01)
            replica.end(kill=kill)
            replica.start()
            # The balancer asks once a second.
            time.sleep(2.5)
    assert set(load.outcomes) == {"ok"}
