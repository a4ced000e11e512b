"""Worker processes in front of apps of the test process."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import httpx
import uvicorn
from uvicorn.server import ServerState

from service.server.http_protocol import PatientProtocol

ROOT = Path(__file__).parent.parent.parent
WORKERS = int(os.environ.get("TEST_WORKERS", "0"))
"""Worker processes of the services under test; 0 tests services of one process."""


@dataclass(frozen=True, slots=True)
class Workers:
    """Worker processes that share a listener, and the socket on which they expect the owner."""

    port: int
    path: Path
    processes: tuple[subprocess.Popen[bytes], ...]


@contextlib.contextmanager
def started(number: int, **settings: Any) -> Iterator[Workers]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DRAGOMAN_")}
    environment |= {f"DRAGOMAN_{name.upper()}": str(value) for name, value in settings.items()}
    with (
        tempfile.TemporaryDirectory() as directory,
        socket.create_server(("127.0.0.1", 0), backlog=1024) as listener,
    ):
        path = Path(directory) / "owner"
        arguments = [str(listener.fileno()), str(path), str(os.getpid())]
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "service.workers.worker", *arguments],
                pass_fds=[listener.fileno()],
                env=environment,
                cwd=ROOT,
            )
            for _ in range(number)
        ]
        try:
            workers = Workers(listener.getsockname()[1], path, tuple(processes))
            _wait(workers)
            yield workers
        finally:
            for process in processes:
                process.kill()
                process.wait()


def _wait(workers: Workers) -> None:
    """Wait until a worker answers that the owner is not there."""
    while True:
        assert all(process.poll() is None for process in workers.processes)
        with contextlib.suppress(httpx.TransportError):
            assert httpx.get(f"http://127.0.0.1:{workers.port}/livez").status_code == 503
            return
        time.sleep(0.02)


@contextlib.asynccontextmanager
async def owned(app: Any, path: Path) -> AsyncIterator[None]:
    """Serve an app to workers, without its lifespan."""
    state = ServerState()
    config = uvicorn.Config(app, lifespan="off", log_config=None, forwarded_allow_ips="*")
    config.load()
    protocol = partial(PatientProtocol, config, state, {})
    path.unlink(missing_ok=True)
    server = await asyncio.get_running_loop().create_unix_server(protocol, path, backlog=1024)
    try:
        yield
    finally:
        server.close()
        for connection in list(cast(set[PatientProtocol], state.connections)):
            connection.transport.abort()


class WorkersTransport(httpx.AsyncHTTPTransport):
    """Sends every request to the workers, whatever its host."""

    def __init__(self, workers: Workers) -> None:
        super().__init__()
        self._port = workers.port

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.url = request.url.copy_with(scheme="http", host="127.0.0.1", port=self._port)
        return await super().handle_async_request(request)


@functools.cache
def shared() -> Workers:
    """Workers for all tests of this process."""
    context = started(WORKERS)
    workers = context.__enter__()
    atexit.register(context.__exit__, None, None, None)
    return workers
