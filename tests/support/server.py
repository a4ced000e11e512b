"""Runs ``dragoman serve`` with a test model: a real server without weights, optionally slow.

``python -m tests.support.server --bundles DIR --port 0``. Beside the options of ``dragoman serve``,
it can delay steps and inject failures.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from models.bundle.manifest import Manifest
from service import bootstrap, cli
from service.api.middleware import BodyLimit
from service.catalogue.loaded_model import LoadedModel
from service.commands import serve
from service.loading import loader as loading
from service.loading.loader import ModelObserver
from service.server.http_protocol import PatientProtocol
from service.settings import Settings
from tests.support.programs import ROOT
from tests.support.toy import ScriptedBackend, make_limits, make_model, shouting
from tests.support.troubled import Trouble, Troubled
from tests.support.worker_processes import WORKERS


async def load_troubled(
    path: Path,
    settings: Settings,
    observer_for: Callable[[str], ModelObserver],
    *,
    trouble: Trouble,
    load_seconds: float,
    results: bool,
) -> LoadedModel:
    """Replaces ``service.loading.loader.load_model``. Like it, this blocks a thread."""
    await asyncio.to_thread(time.sleep, load_seconds)
    manifest = Manifest.from_json((path / "manifest.json").read_text(encoding="utf-8"))
    limits = make_limits(settings.slots or 8, settings.max_beam_size)
    backend = Troubled(ScriptedBackend(shouting, limits), trouble)
    kept = settings.result_megabytes << 20 if results else 0
    return await make_model(manifest, backend, observer_for(manifest.name), kept)


def open_troubled(path: Path, settings: Settings, *, trouble: Trouble) -> loading.OpenedBundle:
    """Replaces ``service.loading.loader.open_bundle``: the real model with injected failures."""
    opened = loading.open_bundle(path, settings)
    troubled = {name: Troubled(each, trouble) for name, each in opened.backends.items()}
    return replace(opened, backends=troubled)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    Trouble.add_arguments(parser)
    parser.add_argument("--load-seconds", type=float, default=0.0, help="to load a bundle")
    parser.add_argument("--head-seconds", type=float, help="patience with heads of requests")
    parser.add_argument("--body-seconds", type=float, help="patience with bodies")
    parser.add_argument("--unread-seconds", type=float, help="patience with unread answers")
    parser.add_argument("--results", action="store_true", help="keep results, as the service does")
    parser.add_argument("--real", action="store_true", help="load what is in the bundles")
    parser.add_argument("--file-limit", type=int, help="of open files")
    options, of_cli = parser.parse_known_args()
    if options.file_limit is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (options.file_limit, options.file_limit))
    if options.head_seconds is not None:
        PatientProtocol.head_seconds = options.head_seconds
    if options.unread_seconds is not None:
        PatientProtocol.unread_seconds = options.unread_seconds
    trouble = Trouble.of(options)
    load: loading.LoadModel = partial(
        load_troubled, trouble=trouble, load_seconds=options.load_seconds, results=options.results
    )
    if options.real:
        load = partial(loading.load_model, open_bundle=partial(open_troubled, trouble=trouble))

    def build(settings: Settings, decode_socket: Path | None = None) -> bootstrap.Service:
        built = bootstrap.build(settings, load, decode_socket)
        for middleware in built.app.user_middleware:
            if middleware.cls is BodyLimit and options.body_seconds is not None:
                middleware.kwargs["seconds"] = options.body_seconds
        return built

    serve.build = build
    return cli.main(["serve", *of_cli])


async def running_requests(client: httpx.AsyncClient) -> float:
    metrics = (await client.get("/metrics")).text
    return float(metrics.split("\nnmt_requests_running ")[1].split()[0])


LISTENS = re.compile(r"^Dragoman listens on (\S+)$", re.MULTILINE)
"""The line with which a server prints its address."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running ``python -m tests.support.server``."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait(self, *, ready: bool = True) -> None:
        """Wait until the server answers, or until it is ready."""
        path = "/readyz" if ready else "/livez"
        while True:
            assert self.process.poll() is None, self.log.read_text()
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(self.address + path).status_code == 200:
                    return
            time.sleep(0.02)


@contextlib.contextmanager
def running(
    bundles: Path, *arguments: str, ready: bool = True, **settings: Any
) -> Iterator[Server]:
    """A server in a separate process; settings are named in lower case."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DRAGOMAN_")}
    settings = {"state": bundles.parent / "state", "workers": WORKERS, **settings}
    environment |= {f"DRAGOMAN_{name.upper()}": str(value) for name, value in settings.items()}
    program = [sys.executable, "-m", "tests.support.server", "--bundles", str(bundles)]
    log = bundles.parent / "server.log"
    with (
        log.open("wb") as stderr,
        subprocess.Popen(
            [*program, "--port", "0", *arguments], stderr=stderr, env=environment, cwd=ROOT
        ) as process,
    ):
        try:
            server = Server(process, _port(process, log), log)
            server.wait(ready=ready)
            yield server
        finally:
            process.kill()


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    while not (found := LISTENS.search(log.read_text(encoding="utf-8"))):
        assert process.poll() is None, log.read_text(encoding="utf-8")
        time.sleep(0.02)
    return int(found[1].rsplit(":", 1)[1])


if __name__ == "__main__":
    sys.exit(main())
