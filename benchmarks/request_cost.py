"""Processor time of the service per request over one connection, without the cost of decoding.

    python -m benchmarks.request_cost [--against CHECKOUT] [--requests N] [--rounds N]

The time is that of the thread of the event loop, which parses, segments, joins and answers; the
engine has a thread of its own. Requests are of one caption: answered from the result cache, by
either API, or decoded. While a sentence is decoded the event loop's thread waits, and its code
leaves the processor's caches; kept answers with pauses in between show what that alone costs. With
``--against``, the service of another checkout takes turns. The log is at its usual level and
discarded. Linux only.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks import machine
from benchmarks.server import serving
from service.runtime import processor

_CAPTION = "Zwei junge Männer spielen Fußball auf einer Wiese."
_ROOT: dict[str, Any] = {"q": _CAPTION, "source": "de", "target": "en"}
_DEEPL: dict[str, Any] = {"text": [_CAPTION], "source_lang": "DE", "target_lang": "EN"}
_WARMING = 50


@dataclass(frozen=True, slots=True)
class Case:
    """Requests of one kind, ``pause`` seconds apart; ``body`` makes a body from its number."""

    name: str
    path: str
    body: Callable[[int], dict[str, Any]]
    pause: float = 0


CASES = (
    Case("cached, /translate", "/translate", lambda number: _ROOT),
    Case("cached, /v2/translate", "/v2/translate", lambda number: _DEEPL),
    Case("cached, 20 ms apart", "/translate", lambda number: _ROOT, pause=0.02),
    # Results are kept by their options.
    Case("decoded, /translate", "/translate", lambda n: {**_ROOT, "length_penalty": 1 + n * 1e-6}),
)


class Server:
    """A running service."""

    def __init__(self, url: str, process_id: int) -> None:
        self._address = urlsplit(url)
        self._process_id = process_id
        self._numbers = itertools.count()

    def milliseconds(self, case: Case, requests: int) -> float:
        """Processor time of the event loop's thread per request; raises ``RuntimeError``."""
        # One connection for all turns would be closed as idle during the turns of other services.
        with socket.create_connection((self._address.hostname, self._address.port)) as connection:
            self._post(connection, case)
            started = self._seconds()
            for _ in range(requests):
                time.sleep(case.pause)
                self._post(connection, case)
            return (self._seconds() - started) * 1000 / requests

    def _seconds(self) -> float:
        return machine.thread_seconds(self._process_id)[self._process_id]

    def _post(self, connection: socket.socket, case: Case) -> None:
        content = json.dumps(case.body(next(self._numbers)))
        head = (
            f"POST {case.path} HTTP/1.1\r\nHost: {self._address.netloc}\r\n"
            "Content-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\n\r\n"
        )
        # One segment, so that the service reads head and body at once.
        connection.sendall((head + content).encode())
        answer = http.client.HTTPResponse(connection, method="POST")
        answer.begin()
        content = answer.read().decode()
        if answer.status != http.client.OK:
            raise RuntimeError(f"the service answered {answer.status}: {content[:200]}")


def measure(servers: Sequence[Server], requests: int, rounds: int) -> dict[str, list[float]]:
    """Median milliseconds per request by case, one number for each server."""
    return {case.name: _medians(servers, case, requests, rounds) for case in CASES}


def _medians(servers: Sequence[Server], case: Case, requests: int, rounds: int) -> list[float]:
    for server in servers:
        server.milliseconds(case, _WARMING)
    measured = [[s.milliseconds(case, requests) for s in servers] for _ in range(rounds)]
    return [statistics.median(of_server) for of_server in zip(*measured, strict=True)]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--against", type=Path, help="checkout whose service takes turns")
    parser.add_argument("--requests", type=int, default=50, help="requests in one turn")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--bundles", type=Path, default=Path("bundles"))
    options = parser.parse_args(arguments)
    checkouts = [Path(), *([options.against] if options.against else [])]
    with ExitStack() as running:
        servers = [
            Server(
                *running.enter_context(
                    serving(
                        options.bundles.resolve(),
                        checkout,
                        subprocess.DEVNULL,
                        LOG_LEVEL="info",
                        RESULT_MEGABYTES="64",
                    )
                )
            )
            for checkout in checkouts
        ]
        found = measure(servers, options.requests, options.rounds)
    print(f"Processor time of the event loop per request, ms; {processor.description()}")
    for name, medians in found.items():
        print(f"{name:24}", *(f"{median:7.2f}" for median in medians))
    print(json.dumps({"checkouts": list(map(str, checkouts)), "milliseconds": found}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
