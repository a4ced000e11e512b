"""``python -m tests.system.sampler``: measures a service under load from outside.

Five series, each of times of the monotonic clock with values: the latency of ``/livez`` and of the
same request to a process that only answers (milliseconds); the latency of a sentence of another
caller, at another address (seconds); resident memory of the service and of its helpers (MB).
Prints them as one line of JSON when its standard input is closed.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import random
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

OTHER_CALLER = "127.0.0.2"
SERIES = ("livez", "idle", "sentence", "resident", "helpers")
_LIVEZ_PAUSE, _SENTENCE_PAUSE, _MEMORY_PAUSE = 0.02, 0.15, 0.05
_PATIENCE = 90.0
_NOTHING = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
_WORDS = ("Abend", "Wasser", "Hund", "Kind", "Mann", "Frau", "Haus", "Wiese", "rote", "läuft")

Series = list[tuple[float, float]]


def sample_every(
    pause: float, done: threading.Event, into: Series, value: Callable[[], float]
) -> None:
    """Append a time and a value until ``done``; a failed request counts as ``_PATIENCE``."""
    while not done.wait(pause):
        started = time.monotonic()
        try:
            measured = value()
        except (OSError, http.client.HTTPException):
            measured = _PATIENCE * 1000
        into.append((started, measured))


class Probe:
    """One persistent connection, opened again when the server has closed it."""

    def __init__(self, port: int, caller: str = "127.0.0.1") -> None:
        self._connection = http.client.HTTPConnection(
            "127.0.0.1", port, timeout=_PATIENCE, source_address=(caller, 0)
        )

    def seconds(self, method: str, path: str, body: str | None = None) -> float:
        """The time until the whole answer has come; other statuses than 200 are errors."""
        started = time.monotonic()
        headers = {"content-type": "application/json"}
        try:
            self._connection.request(method, path, body, headers)
            answer = self._connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise
        if answer.status != 200:
            raise http.client.HTTPException(f"status {answer.status}")
        return time.monotonic() - started


def answer_at_once(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    while connection.recv(4096):
        connection.sendall(_NOTHING)


def resident(process: int) -> float:
    """MB of resident memory of a process, 0 if it is gone."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    _, found, rest = status.partition("VmRSS:")
    return int(rest.split()[0]) / 1024 if found else 0.0


def children(process: int) -> list[int]:
    """Ids of the child processes of all threads of a process."""
    found: list[int] = []
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            found += map(int, task.read_text(encoding="utf-8").split())
        except OSError:
            continue
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--process", type=int, required=True)
    parser.add_argument("--series", choices=SERIES, nargs="+", default=SERIES)
    options = parser.parse_args()
    done = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    idle = multiprocessing.get_context("fork").Process(
        target=answer_at_once, args=(listener,), daemon=True
    )
    idle.start()
    livez, nothing = Probe(options.port), Probe(listener.getsockname()[1])
    other = Probe(options.port, OTHER_CALLER)
    words = random.Random(1)

    def sentence() -> float:
        text = " ".join(words.choices(_WORDS, k=8)) + f" {words.randrange(10**6)}."
        body = json.dumps({"q": text, "source": "de", "target": "en"})
        return other.seconds("POST", "/translate", body)

    taken: dict[str, Series] = {name: [] for name in options.series}
    measures: list[tuple[str, float, Callable[[], float]]] = [
        ("livez", _LIVEZ_PAUSE, lambda: 1000 * livez.seconds("GET", "/livez")),
        ("idle", _LIVEZ_PAUSE, lambda: 1000 * nothing.seconds("GET", "/")),
        ("sentence", _SENTENCE_PAUSE, sentence),
        ("resident", _MEMORY_PAUSE, lambda: resident(options.process)),
        ("helpers", 0.3, lambda: sum(map(resident, children(options.process)))),
    ]
    threads = [
        threading.Thread(target=sample_every, args=(pause, done, taken[name], value), daemon=True)
        for name, pause, value in measures
        if name in taken
    ]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    done.set()
    for thread in threads:
        thread.join(_PATIENCE)
    print(json.dumps(taken))
    return 0


if __name__ == "__main__":
    sys.exit(main())
