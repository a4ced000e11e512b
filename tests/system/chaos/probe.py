"""``python -m tests.system.chaos.probe``: measures the latency of ``/livez`` from outside.

Sends requests one by one with pauses over one persistent connection, as a supervisor would. The
same requests go to a process that only answers, as the baseline of a busy machine. Prints one line
of JSON when its standard input is closed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import socket
import sys
import threading
import time

_PAUSE = 0.01
_REQUEST = b"GET /livez HTTP/1.1\r\nhost: probe\r\n\r\n"
_NOTHING = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


def probe(port: int, done: threading.Event) -> list[tuple[float, float]]:
    """Send time of each request, in seconds from the first, and its latency in milliseconds."""
    taken: list[tuple[float, float]] = []
    began = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while not done.wait(_PAUSE):
            sent = time.perf_counter()
            connection.sendall(_REQUEST)
            _read_answer(connection)
            taken.append((sent - began, (time.perf_counter() - sent) * 1000))
    return taken


def _read_answer(connection: socket.socket) -> None:
    data = b""
    while b"\r\n\r\n" not in data:
        received = connection.recv(4096)
        assert received, "the server closed the probe's connection"
        data += received
    assert data.startswith(b"HTTP/1.1 200 "), data
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(4096)


def answer_at_once(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    while connection.recv(4096):
        connection.sendall(_NOTHING)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    done = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    idle = multiprocessing.get_context("fork").Process(
        target=answer_at_once, args=(listener,), daemon=True
    )
    idle.start()
    taken: dict[str, list[tuple[float, float]]] = {}

    def measure(name: str, port: int) -> None:
        taken[name] = probe(port, done)

    threads = [
        threading.Thread(target=measure, args=("livez", options.port)),
        threading.Thread(target=measure, args=("idle", listener.getsockname()[1])),
    ]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    done.set()
    for thread in threads:
        thread.join()
    print(json.dumps(taken))
    return 0


if __name__ == "__main__":
    sys.exit(main())
