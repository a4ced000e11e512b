"""Requests a second, latency and processor time by number of worker processes.

    python -m benchmarks.workers --workers 0,1,2,3 --rounds 3 --seconds 5

Services of a bundle whose engine has a simulated device: a step takes 0.5 ms for any number of
rows, spent without the interpreter, as an H200 would take. No two requests are equal, and results
are not kept. Configurations take turns. Prints one line of JSON for each measurement; processor
times are milliseconds per request.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from service import bootstrap, cli
from service.catalogue.loaded_model import LoadedModel
from service.catalogue.result_cache import ResultCache
from service.commands import serve
from service.engine.engine import Engine
from service.engine.group import EngineGroup
from service.engine.scheduler import Scheduler
from service.loading.loader import ObserverFor, load_model
from service.runtime.backend import CacheUse, Candidates, EncodeBatch, Limits, StepBatch
from service.settings import Settings

BUNDLES = Path(__file__).resolve().parents[1] / "bundles"
STEP_SECONDS = 0.0005
CAPTIONS = (
    "Zwei junge Männer spielen Fußball auf einer Wiese.",
    "Eine Frau im roten Kleid geht mit ihrem Hund spazieren.",
    "Ein Kind sitzt auf einer Bank und isst ein Eis.",
    "Mehrere Menschen warten an einer Haltestelle auf den Bus.",
)
_NAME = b"ammmmm"
"""Replaced in each request by its number, in letters: figures have more hypotheses compared."""
_LETTERS = bytes.maketrans(b"0123456789", b"mnoprstuvw")
LOADS = (("/translate", 1, 64), ("/translate", 32, 16), ("/v2/translate", 1, 64))
"""Path, sentences of a request, connections."""


class SimulatedDevice:
    """A backend that ends each sentence after as many tokens as its source has."""

    def __init__(self, eos: int) -> None:
        self.limits = Limits(slots=256, rows_per_slot=20, source_length=256, target_length=256)
        self._eos = eos
        self._lengths = np.zeros(self.limits.slots, np.int64)

    def encode(self, batch: EncodeBatch) -> None:
        first = batch.first_slot
        lengths = [len(source) for source in batch.sources]
        self._lengths[first : first + len(lengths)] = lengths
        time.sleep(STEP_SECONDS)

    def step(self, batch: StepBatch) -> Candidates:
        sentences, rows = batch.parents_BK.shape
        count = batch.num_candidates
        ids = np.broadcast_to(np.arange(count) + 1000, (sentences, rows, count)).copy()
        ids[batch.positions_B >= self._lengths[:sentences] - 1, :, 0] = self._eos
        scores = np.broadcast_to(-0.1 - np.arange(count, dtype=np.float32), ids.shape).copy()
        scores -= 0.01 * np.arange(rows, dtype=np.float32)[None, :, None]
        time.sleep(STEP_SECONDS)
        return Candidates(ids, scores, np.zeros((sentences, rows), np.float32))

    def move(self, origin: int, slot: int) -> None:
        self._lengths[slot] = self._lengths[origin]

    def check(self) -> None:
        """No device can be lost."""

    def cache_use(self) -> CacheUse:
        return CacheUse(1, 1 << 30)

    def close(self) -> None:
        """There is nothing to free."""


async def load_simulated(path: Path, settings: Settings, observe: ObserverFor) -> LoadedModel:
    """The bundle with a simulated device, and without kept results."""
    model = await load_model(path, settings, observe)
    await model.engine.close()
    device = SimulatedDevice(model.manifest.special_ids.eos)
    scheduler = Scheduler(
        device.limits, model.manifest.special_ids, max_padded_tokens=1 << 16, max_batch_rows=1024
    )
    model.engine = EngineGroup([Engine(cast(Any, device), scheduler)])
    await model.engine.start()
    model.results = ResultCache(model.engine.decode)
    return model


class _Client(asyncio.Protocol):
    """Sends one numbered request after the other over one connection."""

    numbers = itertools.count()

    def __init__(self, request: bytes, until: float, times: list[float]) -> None:
        self._request, self._until, self._times = request, until, times
        self._buffer = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._ask()

    def _ask(self) -> None:
        self._asked = time.perf_counter()
        name = b"a%05d" % (next(self.numbers) % 100_000)
        self._transport.write(self._request.replace(_NAME, name.translate(_LETTERS), 1))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, end, body = self._buffer.partition(b"\r\n\r\n")
        if not end:
            return
        assert head.startswith(b"HTTP/1.1 200"), self._buffer[:400]
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        if len(body) < length:
            return
        self._buffer = b""
        now = time.perf_counter()
        self._times.append(now - self._asked)
        if now > self._until:
            self._transport.close()
        else:
            self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        if time.perf_counter() > self._until:
            self.done.set_result(None)
        else:
            self.done.set_exception(exc or ConnectionError("the service closed the connection"))


async def _load(port: int, request: bytes, connections: int, seconds: float) -> list[float]:
    """Seconds of every request."""
    times: list[float] = []
    until = time.perf_counter() + seconds
    loop, make = asyncio.get_running_loop(), partial(_Client, request, until, times)
    clients = [
        (await loop.create_connection(make, "127.0.0.1", port))[1] for _ in range(connections)
    ]
    await asyncio.gather(*(client.done for client in clients))
    return times


def _request(path: str, sentences: int) -> bytes:
    texts: Any = [CAPTIONS[number % len(CAPTIONS)] for number in range(sentences)]
    texts[0] = f"Bild {_NAME.decode()}: {texts[0]}"
    body = {"q": texts, "source": "de", "target": "en"}
    if path.startswith("/v2"):
        body = {"text": texts, "source_lang": "DE", "target_lang": "EN"}
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


@contextmanager
def _service(workers: int) -> Iterator[tuple[int, dict[str, int]]]:
    """Port and process numbers of a service."""
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "log"
        environment = {
            **os.environ,
            "DRAGOMAN_STATE": directory,
            "DRAGOMAN_WORKERS": str(workers),
            "DRAGOMAN_THREADS": "1",
        }
        command = [sys.executable, "-m", "benchmarks.workers", "serve", "--port", "0"]
        with log.open("wb") as stderr:
            process = subprocess.Popen(
                [*command, "--bundles", str(BUNDLES)], stderr=stderr, env=environment
            )
        try:
            while " ready models=" not in (text := log.read_text()):
                assert process.poll() is None, text
                time.sleep(0.1)
            lines = text.splitlines()
            port = next(int(line.rsplit(":", 1)[1]) for line in lines if "listens on" in line)
            started = re.findall(r"(owner|worker \d+) is process (\d+)", text)
            pids = {name: int(pid) for name, pid in started}
            yield port, pids or {"whole": process.pid}
        finally:
            process.terminate()
            process.wait()


def _processor_seconds(pid: int) -> float:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def _measure(workers: list[int], rounds: int, seconds: float) -> None:
    with ExitStack() as stack:
        services = {number: stack.enter_context(_service(number)) for number in workers}
        for port, _ in services.values():
            asyncio.run(_load(port, _request("/translate", 1), 16, 2.0))
        for path, sentences, connections in LOADS * rounds:
            for number, (port, pids) in services.items():
                before = {name: _processor_seconds(pid) for name, pid in pids.items()}
                began = time.perf_counter()
                request = _request(path, sentences)
                times = asyncio.run(_load(port, request, connections, seconds))
                took = time.perf_counter() - began
                spent = {
                    name: round((_processor_seconds(pid) - before[name]) * 1e3 / len(times), 3)
                    for name, pid in pids.items()
                }
                row = {
                    "load": round(os.getloadavg()[0], 1),
                    "path": path,
                    "sentences": sentences,
                    "workers": number,
                    "requests_per_second": round(len(times) / took, 1),
                    "p50_ms": round(statistics.median(times) * 1e3, 1),
                    "p99_ms": round(statistics.quantiles(times, n=100)[98] * 1e3, 1),
                    "processor_ms": spent,
                }
                print(json.dumps(row), flush=True)


def main() -> int:
    if sys.argv[1:2] == ["serve"]:
        vars(serve)["build"] = partial(bootstrap.build, load=load_simulated)
        return cli.main(sys.argv[1:])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", default="0,1,2,3", help="numbers, separated by commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="of one measurement")
    options = parser.parse_args()
    _measure([int(n) for n in options.workers.split(",")], options.rounds, options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
