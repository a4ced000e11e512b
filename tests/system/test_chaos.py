"""Two hundred clients, a third of whom hang up, while bundles come and go and steps fail.

One run of the server in a process of its own, with the model that shouts; what it was like is
looked at from several sides.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from service.state.database import FILE_NAME, Database
from service.state.keys import KeyStore
from tests.support.server import ROOT, Server, running
from tests.support.shouting import put_broken_bundle, put_bundle
from tests.system.chaos.questions import MARK, shouted

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

SECONDS = 40.0
CLIENTS = 200
SLOTS = 16
SENTENCE = 59
"""Characters, and one token less than bytes and the end: what the model can read at once."""
CAPACITY = 200 * (SENTENCE + 1)
"""Tokens that may be in flight, a whole number of such sentences."""
KEY, WRONG_KEY, ADMIN_KEY = f"{MARK}-key-of-a-friend", f"{MARK}-key-of-nobody", f"{MARK}-admin"

LIVEZ_MILLISECONDS = 250.0
MOST_OF_OTHERS = 0.5
"""Cores that may be busy otherwise while it is measured how soon somebody is answered."""
ALLOWED_GROWTH = 12.0
"""MB. Arenas of the allocator are kept by each thread that ever allocated, and reloads begin new
threads; a leak of a kilobyte a request would be several times as much within one fifth."""

Books = dict[tuple[str, tuple[str, ...]], float]
"""By the name of a series and the values of its labels, in the order of their names."""


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What a run was like."""

    clients: dict[str, Any]
    asked_beside: int
    """Requests of everybody else: probes, reloads, looks at the metrics."""
    reloads: list[dict[str, Any]]
    resident: list[float]
    """MB, at regular intervals."""
    livez: list[float]
    idle: list[float]
    """Milliseconds of the same requests to a process that has nothing to do."""
    others: float
    """Cores that other programs kept busy meanwhile."""
    books: Books
    """When all was quiet."""
    full: dict[str, tuple[httpx.Response, float]]
    """Answers to as much as is ever accepted at once, and most sentences seen in the batch."""
    too_much: httpx.Response
    exit_code: int
    log: str


@pytest.fixture(scope="module")
def aftermath(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aftermath]:
    directory = tmp_path_factory.mktemp("chaos")
    bundles, trouble = directory / "bundles", directory / "trouble"
    put_bundle(bundles, "shout-de-en", "de", "en")
    put_bundle(bundles, "shout-en-de", "en", "de")
    put_bundle(bundles, "shout-en-fr", "en", "fr")
    asyncio.run(_add_key(directory / "state"))
    settings: dict[str, Any] = {
        "slots": SLOTS,
        "max_queue_tokens": CAPACITY,
        "request_seconds": 30,
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
        began, before = time.monotonic(), _others(server)
        clients, probe = _start_clients(server), _start_probe(server)
        resident, reloads = _watch(server, operator, bundles, clients)
        heard = json.loads(clients.communicate()[0])
        trouble.unlink()
        times = json.loads(probe.communicate(b"")[0])
        others = (_others(server) - before) / (time.monotonic() - began)
        books = operator.quiet_books()
        asked_beside = int(operator.asked_before) + operator.asked + len(times["livez"])
        full = {pair: operator.fill(*pair.split("-")) for pair in ("de-en", "en-de")}
        too_much = operator.translate("de", "en", CAPACITY // (SENTENCE + 1) + 1)
        server.process.send_signal(signal.SIGTERM)
        exit_code = server.process.wait(60)
        loaded = [(at, taken) for at, taken in times["livez"] if at < SECONDS]
        yield Aftermath(
            clients=heard,
            asked_beside=asked_beside,
            reloads=reloads,
            resident=resident,
            livez=[taken for _, taken in loaded],
            idle=[taken for at, taken in times["idle"] if at < SECONDS],
            others=others,
            books=books,
            full=full,
            too_much=too_much,
            exit_code=exit_code,
            log=server.log.read_text(encoding="utf-8"),
        )


class Operator:
    """Whoever runs the server: counts what it asks."""

    def __init__(self, server: Server) -> None:
        self._client = httpx.Client(base_url=server.address, timeout=60)
        # ``running`` has asked whether it is ready, and was told so the last time at the latest.
        self.asked = 0
        self._asked_before = _accepted(self.books()) - 1

    def __enter__(self) -> Operator:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    @property
    def asked_before(self) -> float:
        return self._asked_before

    def books(self) -> Books:
        self.asked += 1
        return _parse(self._client.get("/metrics").text)

    def reload(self) -> dict[str, Any]:
        self.asked += 1
        headers = {"authorization": f"Bearer {ADMIN_KEY}"}
        response = self._client.post("/models/reload", headers=headers)
        assert response.status_code == 200, response.text
        done: dict[str, Any] = response.json()
        return done

    def quiet_books(self) -> Books:
        """The books once nobody but who looks is being answered."""
        while (books := self.books())["nmt_requests_running", ()] > 1:
            time.sleep(0.1)
        return books

    def translate(self, source: str, target: str, sentences: int) -> httpx.Response:
        body = {"q": _sentences(sentences), "source": source, "target": target}
        return self._client.post("/translate", json=body)

    def fill(self, source: str, target: str) -> tuple[httpx.Response, float]:
        """Ask for as much as is ever accepted at once, and look how many run together."""
        most = 0.0
        with ThreadPoolExecutor(1) as thread:
            answer = thread.submit(self.translate, source, target, CAPACITY // (SENTENCE + 1))
            while not answer.done():
                key = "nmt_sentences_running", (f"shout-{source}-{target}",)
                most = max(most, self.books().get(key, 0.0))
        return answer.result(), most


async def _add_key(state: Path) -> None:
    async with Database(state / FILE_NAME) as database:
        await KeyStore(database).add("friend", KEY)


def _start_clients(server: Server) -> subprocess.Popen[bytes]:
    arguments = {
        "--port": server.port,
        "--clients": CLIENTS,
        "--seconds": SECONDS,
        "--key": KEY,
        "--wrong-key": WRONG_KEY,
    }
    words = [str(word) for pair in arguments.items() for word in pair]
    program = [sys.executable, "-m", "tests.system.chaos.clients", *words, "--exact"]
    return subprocess.Popen(program, stdout=subprocess.PIPE, cwd=ROOT)


def _start_probe(server: Server) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.system.chaos.probe", "--port", str(server.port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )


def _watch(
    server: Server, operator: Operator, bundles: Path, clients: subprocess.Popen[bytes]
) -> tuple[list[float], list[dict[str, Any]]]:
    """Reload until the clients are done; memory while they ask, and what the reloads did."""
    resident: list[float] = []
    over = threading.Event()

    def sample() -> None:
        while not over.wait(0.2):
            resident.append(_resident(server.process.pid))

    sampling = threading.Thread(target=sample)
    sampling.start()
    reloads: list[dict[str, Any]] = []
    end = time.monotonic() + SECONDS
    while clients.poll() is None:
        if time.monotonic() < end:
            _change(bundles, len(reloads))
            reloads.append(operator.reload())
        else:
            over.set()
        time.sleep(1.0)
    over.set()
    sampling.join()
    return resident, reloads


def _change(bundles: Path, number: int) -> None:
    """Every time another version of one model; now and then another comes, goes or is broken."""
    put_bundle(bundles, "shout-en-de", "en", "de", version=str(number + 2))
    match number % 6:
        case 1:
            shutil.rmtree(bundles / "shout-en-fr")
        case 2:
            put_broken_bundle(bundles, "broken")
        case 4:
            put_bundle(bundles, "shout-en-fr", "en", "fr")
        case 5:
            shutil.rmtree(bundles / "broken")


def _resident(process: int) -> float:
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def _others(server: Server) -> float:
    """Seconds of processor time used so far by programs that are none of ours, and some constant.

    Ours that still run, but for the server, are not seen before they have ended.
    """
    user, nice, system, _, _, *interrupts = Path("/proc/stat").read_text().split()[1:9]
    ticks = sum(map(int, (user, nice, system, *interrupts)))
    stat = Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    ticks -= int(stat[11]) + int(stat[12])
    ours = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    seconds = sum(usage.ru_utime + usage.ru_stime for usage in ours)
    return ticks / os.sysconf("SC_CLK_TCK") - seconds


def _parse(exposition: str) -> Books:
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(exposition)
        for sample in family.samples
    }


def _accepted(books: Books) -> float:
    return books["nmt_requests_accepted_total", ()]


def _outcomes(books: Books) -> dict[str, float]:
    found: dict[str, float] = {}
    for (name, labels), value in books.items():
        if name == "nmt_requests_total":
            _, outcome, _ = labels
            found[outcome] = found.get(outcome, 0) + value
    return found


def _sentences(count: int) -> list[str]:
    return [f"{MARK} {number:4} " + "abcde fghij " * 4 for number in range(count)]


def _of(books: Books, name: str) -> dict[tuple[str, ...], float]:
    return {labels: value for (series, labels), value in books.items() if series == name}


def _quantile(values: list[float], share: float) -> float:
    return sorted(values)[int(share * len(values))]


def test_everybody_who_stays_hears_something(aftermath: Aftermath) -> None:
    clients = aftermath.clients
    assert clients["silent"] == 0
    assert clients["lost"] == []
    assert sum(clients["heard"].values()) == clients["asked"] - clients["left"]
    assert clients["heard"].keys() <= {"200", "400", "403", "500", "503", "504", "broken"}


def test_what_is_translated_amid_all_that_is_right(aftermath: Aftermath) -> None:
    assert aftermath.clients["misunderstood"] == []


def test_all_of_it_happened(aftermath: Aftermath) -> None:
    heard = aftermath.clients["heard"]
    assert heard["200"] > CLIENTS and heard["500"] > 0 and heard["503"] > 0
    assert aftermath.clients["left"] > aftermath.clients["asked"] / 4
    retired = _of(aftermath.books, "nmt_batch_retires_total")
    reasons = {reason for (_, _, reason), count in retired.items() if count}
    assert reasons == {"finished", "failed", "cancelled", "preempted"}
    assert len(aftermath.reloads) > SECONDS / 4
    assert any("broken" in reload["failed"] for reload in aftermath.reloads)


def test_the_books_balance_to_the_request(aftermath: Aftermath) -> None:
    books, clients = aftermath.books, aftermath.clients
    outcomes = _outcomes(books)
    assert _accepted(books) == sum(outcomes.values()) + 1, "who looks is being answered"
    assert _accepted(books) == clients["asked"] + aftermath.asked_beside
    # Whoever hung up just before the answer was sent is in no other column than who heard it.
    heard_ok = clients["heard"]["200"] + aftermath.asked_beside - 1
    heard_otherwise = sum(clients["heard"].values()) - clients["heard"]["200"]
    told_otherwise = sum(outcomes.values()) - outcomes["ok"] - outcomes["cancelled"]
    assert outcomes["ok"] - heard_ok >= 0
    assert told_otherwise - heard_otherwise >= 0
    assert outcomes["cancelled"] <= clients["left"]


def test_no_sentence_is_left_behind(aftermath: Aftermath) -> None:
    books = aftermath.books
    for gauge in ("nmt_sentences_running", "nmt_sentences_waiting", "nmt_queue_tokens"):
        assert set(_of(books, gauge).values()) == {0.0}, gauge
    joins, retires = (_of(books, f"nmt_batch_{what}_total") for what in ("joins", "retires"))
    for model in {model for _, model in joins}:
        joined = sum(count for (_, of, *_), count in joins.items() if of == model)
        retired = sum(count for (_, of, *_), count in retires.items() if of == model)
        assert joined == retired, model


@pytest.mark.parametrize("pair", ["de-en", "en-de"], ids=["stayed", "was replaced"])
def test_no_slot_and_no_room_in_the_queue_is_lost(aftermath: Aftermath, pair: str) -> None:
    answer, most = aftermath.full[pair]
    assert answer.status_code == 200, answer.text
    expected = [shouted(sentence) for sentence in _sentences(CAPACITY // (SENTENCE + 1))]
    assert answer.json()["translatedText"] == expected
    assert most == SLOTS
    # One sentence more would never have been accepted, so all the room there is was free.
    assert aftermath.too_much.status_code == 413
    assert f"{CAPACITY + SENTENCE + 1} tokens; at most {CAPACITY}" in aftermath.too_much.text


def test_memory_does_not_grow(aftermath: Aftermath) -> None:
    fifth = len(aftermath.resident) // 5
    second, last = aftermath.resident[fifth : 2 * fifth], aftermath.resident[-fifth:]
    grown = statistics.median(last) - statistics.median(second)
    assert grown < ALLOWED_GROWTH, [round(mb) for mb in aftermath.resident]


def test_liveness_is_answered_at_once(aftermath: Aftermath) -> None:
    assert len(aftermath.livez) > 500
    fifth = len(aftermath.livez) // 5
    # The middle one of five stretches: one in which the machine did something else does not decide.
    taken = statistics.median(
        _quantile(aftermath.livez[start : start + fifth], 0.99)
        for start in range(0, 5 * fifth, fifth)
    )
    if aftermath.others > MOST_OF_OTHERS:
        pytest.skip(f"others kept {aftermath.others:.1f} cores busy; it took {taken:.0f} ms")
    # What this machine takes for anything at all.
    allowed = LIVEZ_MILLISECONDS + _quantile(aftermath.idle, 0.99)
    assert taken < allowed, sorted(aftermath.livez)[-50:]


def test_it_stops_in_good_order_afterwards(aftermath: Aftermath) -> None:
    assert aftermath.exit_code == 0


def test_the_log_tells_neither_texts_nor_keys(aftermath: Aftermath) -> None:
    assert "access" in aftermath.log
    assert re.search(MARK, aftermath.log, re.IGNORECASE) is None


def test_nothing_fails_unheard(aftermath: Aftermath) -> None:
    for sign in ("never retrieved", "never awaited", "unexpectedly", "exception calling callback"):
        assert sign not in aftermath.log


def test_reloads_leak_neither_threads_nor_files(tmp_path: Path) -> None:
    bundles = tmp_path / "bundles"
    put_bundle(bundles, "shout-de-en", "de", "en")
    with (
        running(bundles, reload_seconds=0, admin_key=ADMIN_KEY) as server,
        Operator(server) as operator,
    ):

        def held() -> tuple[int, int]:
            process = Path(f"/proc/{server.process.pid}")
            return len(list((process / "task").iterdir())), len(list((process / "fd").iterdir()))

        def reload(versions: range) -> None:
            for version in versions:
                put_bundle(bundles, "shout-de-en", "de", "en", version=str(version))
                assert operator.reload()["loaded"] == ["shout-de-en"]

        # The threads of the event loop's pool come one by one, until there are enough.
        reload(range(2, 10))
        before = held()
        reload(range(10, 30))
        assert held() <= before
