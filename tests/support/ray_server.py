"""Runs ``serve run service.ray.deployment:app`` on a small temporary Ray that leaves no trace.

``python -m tests.support.ray_server --port 8123 max_replicas=2 ...``, where the arguments are those
of the application.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.programs import ROOT

MARK = "DRAGOMANS_TESTS_OF_RAY"
"""Environment variable that marks every process of a run."""

_START_SECONDS = 180


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("arguments", nargs="*", metavar="NAME=VALUE")
    options = parser.parse_args()
    arguments = dict(each.split("=", 1) for each in options.arguments)

    import ray
    from ray import serve

    from service.ray.deployment import app

    # The calls are in the order of ``serve run``, which accepts neither port nor size.
    application = app(arguments)
    start_ray(num_cpus=2)
    serve.start(http_options={"host": "127.0.0.1", "port": options.port})
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        serve.run(application, route_prefix=os.environ.get("ROUTE_PREFIX", "/"))
        print("ready", flush=True)
        signal.pause()
    finally:
        serve.shutdown()
        ray.shutdown()


def start_ray(*, num_cpus: int) -> None:
    """Start a Ray for this process. ``num_cpus`` limits reservations, whatever the machine has."""
    import ray

    ray.init(
        address="local",
        num_cpus=num_cpus,
        num_gpus=0,
        include_dashboard=False,
        object_store_memory=80 << 20,
        namespace="serve",
        _temp_dir=os.environ[MARK],
    )


@dataclass(frozen=True, slots=True)
class RayServer:
    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextlib.contextmanager
def ray_environment(**settings: Any) -> Iterator[dict[str, str]]:
    """The environment for one Ray; its processes are killed at the end."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DRAGOMAN_", "RAY_"))
    }
    environment |= {f"DRAGOMAN_{name.upper()}": str(value) for name, value in settings.items()}
    environment |= {
        # Otherwise Ray writes a token to the home directory.
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH": "service.ray.proxy:middlewares",
        "PYTHONPATH": str(ROOT),
    }
    # Paths of sockets in it may have at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as temporary:
        environment[MARK] = temporary
        try:
            yield environment
        finally:
            end_all(temporary)


@contextlib.contextmanager
def running(port: int, log: Path, *arguments: str, **settings: Any) -> Iterator[RayServer]:
    """An application whose replicas are all ready."""
    program = [sys.executable, "-m", "tests.support.ray_server", "--port", str(port), *arguments]
    with (
        ray_environment(**settings) as environment,
        log.open("wb") as output,
        subprocess.Popen(
            program, stdout=output, stderr=output, env=environment, cwd=ROOT
        ) as process,
    ):
        try:
            deadline = time.monotonic() + _START_SECONDS
            while b"\nready\n" not in b"\n" + log.read_bytes():
                assert process.poll() is None, log.read_text(encoding="utf-8")
                assert time.monotonic() < deadline, log.read_text(encoding="utf-8")
                time.sleep(0.1)
            yield RayServer(process, port, log)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def processes_of(mark: str) -> list[int]:
    """Processes with this mark in their environment, which child processes inherit."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{MARK}={mark}".encode() in (directory / "environ").read_bytes().split(b"\0"):
                found.append(int(directory.name))
    return found


def end_all(mark: str) -> None:
    """Kill all processes with this mark, so that no process of Ray outlives a test."""
    while left := [each for each in processes_of(mark) if each != os.getpid()]:
        for each in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        time.sleep(0.05)


if __name__ == "__main__":
    main()
