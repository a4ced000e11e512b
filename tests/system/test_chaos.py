"""Chaos test: two hundred clients, a third of which hang up, amid reloads and failing steps.

The server runs once, in a separate process, with the capitalising test model; each test checks one
aspect of that run.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.books import (
    Books,
    accepted,
    assert_no_sentence_is_left,
    outcomes,
    read_books,
    series,
)
from tests.support.keys import add_key
from tests.support.programs import ROOT, resident_bytes
from tests.support.server import Server, running
from tests.support.toy import put_broken_bundle, put_bundle
from tests.system.chaos.requests import MARK, shouted

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

SECONDS = 40.0
CLIENTS = 200
SLOTS = 16
REQUEST_SECONDS = 120
"""Longer than any request takes on a busy machine."""
SENTENCE = 59
"""Characters; the model reads at most one token per byte and the end token."""
CAPACITY = 200 * (SENTENCE + 1)
"""Tokens that may be in flight, a multiple of such sentences."""
KEY, WRONG_KEY, ADMIN_KEY = f"{MARK}-key-of-a-friend", f"{MARK}-unknown-key", f"{MARK}-admin"

ALLOWED_GROWTH = 12.0
"""MB. Each thread that ever allocated keeps its allocator arena, and reloads start new threads. A
leak of a kilobyte per request would be several times as much within one fifth."""


@dataclass(frozen=True, slots=True)
class Aftermath:
    """Results of a run."""

    clients: dict[str, Any]
    other_requests: int
    """Requests outside the clients' load: reloads, metrics."""
    reloads: list[dict[str, Any]]
    resident: list[float]
    """MB, at regular intervals."""
    books: Books
    """Metrics after the load."""
    at_capacity: dict[str, tuple[httpx.Response, float]]
    """Answers to requests of exactly the capacity, and the most sentences seen in the batch."""
    above_capacity: httpx.Response
    exit_code: int
    log: str


@pytest.fixture(scope="module")
def aftermath(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aftermath]:
    directory = tmp_path_factory.mktemp("chaos")
    bundles, trouble = directory / "bundles", directory / "trouble"
    for pair in ("de-en", "en-de", "en-fr"):
        _put(bundles, pair)
    asyncio.run(add_key(directory / "state", "friend", KEY))
    settings: dict[str, Any] = {
        "slots": SLOTS,
        "max_queue_tokens": CAPACITY,
        "request_seconds": REQUEST_SECONDS,
        "result_megabytes": 1,
        "attention_megabytes": 1,
        "reload_seconds": 1,
        "api_keys": "optional",
        "admin_key": ADMIN_KEY,
    }
    arguments = ["--fail-rate", "0.002", "--memory-rate", "0.004", "--step-seconds", "0.001"]
    arguments += ["--only-while", str(trouble), "--results"]
    with running(bundles, *arguments, **settings) as server, Operator(server) as operator:
        trouble.touch()
        clients = _start_clients(server)
        reloads, resident = _reload_until_done(operator, bundles, clients, server.process.pid)
        tally = json.loads(clients.communicate()[0])
        trouble.unlink()
        books = operator.quiet_books()
        other_requests = operator.sent
        at_capacity = {pair: operator.fill(*pair.split("-")) for pair in ("de-en", "en-de")}
        above_capacity = operator.translate("de", "en", CAPACITY // (SENTENCE + 1) + 1)
        server.process.send_signal(signal.SIGTERM)
        exit_code = server.process.wait(60)
        yield Aftermath(
            clients=tally,
            other_requests=other_requests,
            reloads=reloads,
            resident=resident,
            books=books,
            at_capacity=at_capacity,
            above_capacity=above_capacity,
            exit_code=exit_code,
            log=server.log.read_text(encoding="utf-8"),
        )


class Operator:
    """Operator of the server; counts its own requests."""

    def __init__(self, server: Server) -> None:
        self._client = httpx.Client(base_url=server.address, timeout=REQUEST_SECONDS + 10)
        # The readiness requests of ``running`` are complete, so the metrics count all of them.
        self.sent = 0
        self.sent = int(accepted(self.books()))

    def __enter__(self) -> Operator:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def books(self) -> Books:
        self.sent += 1
        return read_books(self._client.get("/metrics").text)

    def reload(self) -> dict[str, Any]:
        self.sent += 1
        headers = {"authorization": f"Bearer {ADMIN_KEY}"}
        response = self._client.post("/models/reload", headers=headers)
        assert response.status_code == 200, response.text
        done: dict[str, Any] = response.json()
        return done

    def quiet_books(self) -> Books:
        """The metrics once no request is being answered except the one for the metrics."""
        while (books := self.books())["nmt_requests_running", ()] > 1:
            time.sleep(0.1)
        return books

    def translate(self, source: str, target: str, sentences: int) -> httpx.Response:
        body = {"q": _sentences(sentences), "source": source, "target": target}
        return self._client.post("/translate", json=body)

    def fill(self, source: str, target: str) -> tuple[httpx.Response, float]:
        """Send requests of exactly the capacity, and record the largest batch."""
        most = 0.0
        with ThreadPoolExecutor(1) as thread:
            answer = thread.submit(self.translate, source, target, CAPACITY // (SENTENCE + 1))
            while not answer.done():
                key = "nmt_sentences_running", ("cpu", f"shout-{source}-{target}")
                most = max(most, self.books().get(key, 0.0))
                # Each answer keeps the event loop from the engine.
                time.sleep(0.1)
        return answer.result(), most


def _start_clients(server: Server) -> subprocess.Popen[bytes]:
    arguments = {
        "--port": server.port,
        "--clients": CLIENTS,
        "--seconds": SECONDS,
        "--longest-wait": REQUEST_SECONDS + 10,
        "--key": KEY,
        "--wrong-key": WRONG_KEY,
    }
    words = [str(word) for pair in arguments.items() for word in pair]
    program = [sys.executable, "-m", "tests.system.chaos.clients", *words, "--exact"]
    return subprocess.Popen(program, stdout=subprocess.PIPE, cwd=ROOT)


def _reload_until_done(
    operator: Operator, bundles: Path, clients: subprocess.Popen[bytes], process: int
) -> tuple[list[dict[str, Any]], list[float]]:
    """Results of the reloads, which end before the clients do, and resident memory in MB."""
    reloads: list[dict[str, Any]] = []
    resident: list[float] = []
    end = time.monotonic() + SECONDS
    while clients.poll() is None:
        if time.monotonic() < end:
            _change(bundles, len(reloads))
            reloads.append(operator.reload())
            resident.append(resident_bytes(process) / (1 << 20))
        time.sleep(1.0)
    return reloads, resident


def _put(bundles: Path, pair: str, **options: Any) -> None:
    put_bundle(bundles, f"shout-{pair}", *pair.split("-"), copy_without_letters=False, **options)


def _change(bundles: Path, number: int) -> None:
    """Replace one model's version every time; sometimes add, remove or break another bundle."""
    _put(bundles, "en-de", version=str(number + 2))
    match number % 6:
        case 1:
            shutil.rmtree(bundles / "shout-en-fr")
        case 2:
            put_broken_bundle(bundles, "broken")
        case 4:
            _put(bundles, "en-fr")
        case 5:
            shutil.rmtree(bundles / "broken")


def _sentences(count: int) -> list[str]:
    return [f"{MARK} {number:04} " + "abcde fghij " * 4 for number in range(count)]


def test_every_client_that_stays_gets_a_correct_answer(
    aftermath: Aftermath,
) -> None:
    clients = aftermath.clients
    assert clients["unanswered"] == 0
    assert clients["lost"] == []
    assert sum(clients["answers"].values()) == clients["sent"] - clients["cancelled"]
    assert clients["answers"].keys() <= {"200", "400", "403", "500", "503", "504", "broken"}
    assert clients["incorrect"] == []


def test_every_kind_of_event_occurred(aftermath: Aftermath) -> None:
    answers = aftermath.clients["answers"]
    assert answers["200"] > 0 and answers["500"] > 0 and answers["503"] > 0
    assert aftermath.clients["cancelled"] > 0
    retired = series(aftermath.books, "nmt_batch_retires_total")
    reasons = {reason for (_, _, reason), count in retired.items() if count}
    # Whether callers meet in a full batch depends on the machine.
    assert reasons - {"displaced"} == {"finished", "failed", "cancelled", "preempted"}
    assert any("broken" in reload["failed"] for reload in aftermath.reloads)


def test_metrics_balance_to_the_request(aftermath: Aftermath) -> None:
    books, clients = aftermath.books, aftermath.clients
    ended = outcomes(books)
    assert accepted(books) == sum(ended.values()) + 1, "plus the request for the metrics"
    assert accepted(books) == clients["sent"] + aftermath.other_requests
    # A client may hang up just before its answer is sent; the server counts it as answered.
    answered_ok = clients["answers"]["200"] + aftermath.other_requests - 1
    answered_otherwise = sum(clients["answers"].values()) - clients["answers"]["200"]
    counted_otherwise = sum(ended.values()) - ended["ok"] - ended["cancelled"]
    assert ended["ok"] - answered_ok >= 0
    assert counted_otherwise - answered_otherwise >= 0
    assert ended["cancelled"] <= clients["cancelled"]
    assert_no_sentence_is_left(books)


@pytest.mark.parametrize("pair", ["de-en", "en-de"], ids=["stayed", "was replaced"])
def test_no_slot_and_no_queue_capacity_is_lost(aftermath: Aftermath, pair: str) -> None:
    answer, most = aftermath.at_capacity[pair]
    assert answer.status_code == 200, answer.text
    expected = [shouted(sentence) for sentence in _sentences(CAPACITY // (SENTENCE + 1))]
    assert answer.json()["translatedText"] == expected
    assert most == SLOTS
    # One sentence more exceeds the capacity, so the full request above used all of it.
    assert aftermath.above_capacity.status_code == 413
    assert f"{CAPACITY + SENTENCE + 1} tokens; at most {CAPACITY}" in aftermath.above_capacity.text


def test_memory_does_not_grow(aftermath: Aftermath) -> None:
    fifth = len(aftermath.resident) // 5
    second, last = aftermath.resident[fifth : 2 * fifth], aftermath.resident[-fifth:]
    grown = statistics.median(last) - statistics.median(second)
    assert grown < ALLOWED_GROWTH, [round(mb) for mb in aftermath.resident]


def test_server_exits_well_and_its_log_has_no_texts_keys_or_unhandled_errors(
    aftermath: Aftermath,
) -> None:
    assert aftermath.exit_code == 0
    assert "access" in aftermath.log
    assert re.search(MARK, aftermath.log, re.IGNORECASE) is None
    for sign in ("never retrieved", "never awaited", "unexpectedly", "exception calling callback"):
        assert sign not in aftermath.log


def test_reloads_leak_neither_threads_nor_files(tmp_path: Path) -> None:
    bundles = tmp_path / "bundles"
    _put(bundles, "de-en")
    with (
        running(bundles, reload_seconds=0, admin_key=ADMIN_KEY) as server,
        Operator(server) as operator,
    ):

        def held() -> tuple[int, int]:
            process = Path(f"/proc/{server.process.pid}")
            return len(list((process / "task").iterdir())), len(list((process / "fd").iterdir()))

        def reload(versions: range) -> None:
            for version in versions:
                _put(bundles, "de-en", version=str(version))
                assert operator.reload()["loaded"] == ["shout-de-en"]

        # The event loop's thread pool grows, now and then by one, to its limit.
        reload(range(2, 10))
        threads, files = held()
        reload(range(10, 30))
        threads_after, files_after = held()
        assert threads_after < threads + 10, "20 reloads have left threads"
        assert files_after <= files
