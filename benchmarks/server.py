"""Runs a translation server, ours or a peer's, in another process during a measurement."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

START_SECONDS = 120.0


@contextmanager
def serving(
    bundles: Path, checkout: Path | None = None, log: int | None = None, /, **settings: str
) -> Iterator[tuple[str, int]]:
    """``dragoman serve`` on a free port; yields its address and process id once it is ready.

    ``settings`` are upper-case names without prefix. ``checkout``, ``log`` and ``RuntimeError`` are
    as of ``running``.
    """
    port = free_port()
    with tempfile.TemporaryDirectory() as state:
        environment = {
            "DRAGOMAN_PORT": str(port),
            "DRAGOMAN_BUNDLES": str(bundles),
            "DRAGOMAN_STATE": state,
            "DRAGOMAN_LOG_LEVEL": "warning",
            # Measure translation, not cache hits.
            "DRAGOMAN_RESULT_MEGABYTES": "0",
            **{f"DRAGOMAN_{name}": value for name, value in settings.items()},
        }
        with running(["-m", "service", "serve"], port, environment, checkout, log) as served:
            yield served


@contextmanager
def running(
    arguments: Sequence[str],
    port: int,
    environment: Mapping[str, str],
    checkout: Path | None = None,
    log: int | None = None,
) -> Iterator[tuple[str, int]]:
    """A Python program that serves on ``port``; yields its address and process id.

    ``checkout`` is the directory whose modules run, by default the current one. ``log`` is where
    standard error goes, as for ``subprocess.Popen``. Raises ``RuntimeError`` with the reason if
    ``/readyz`` does not return 200.
    """
    command = [sys.executable, *arguments]
    environment = {**os.environ, **environment}
    with subprocess.Popen(command, env=environment, cwd=checkout, stderr=log) as server:
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(server, url)
            yield url, server.pid
        finally:
            server.terminate()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _wait(server: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    answer = "no answer yet"
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise RuntimeError(f"the service ended with status {server.returncode}")
        try:
            response = httpx.get(f"{url}/readyz", timeout=5)
        except httpx.TransportError as error:
            answer = str(error)
        else:
            if response.status_code == 200:
                return
            answer = response.text
        time.sleep(0.1)
    raise RuntimeError(f"the service is not ready after {START_SECONDS:.0f} s: {answer}")
