"""Tests of the load generator against a slow server."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import pytest

from benchmarks.client import LOST, Plan, send
from tests.support.local_server import answering

REFUSED = "refuse me"


@contextmanager
def slow_server(seconds: float) -> Iterator[str]:
    """Answers requests one by one with a delay; refuses those that ask for it."""
    turn, ended = threading.Lock(), threading.Event()

    class Slow(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # an answer is one segment

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with turn:
                ended.wait(seconds)
            self.close_connection = ended.is_set()
            if self.close_connection:
                return
            self.send_response(503 if body == REFUSED.encode() else 200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

    with answering(Slow) as url:
        try:
            yield url
        finally:
            ended.set()


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
