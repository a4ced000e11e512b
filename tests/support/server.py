"""``dragoman serve`` with a model that shouts: a real server that needs no weights.

``python -m tests.support.server --bundles DIR --port 0``. Beside what ``dragoman serve`` takes it
may be slow and may fail, to see what becomes of those who wait.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from models.bundle.manifest import Manifest
from service import bootstrap, cli
from service.api.bodies import BodyLimit
from service.connections import PatientProtocol
from service.loading import ModelObserver
from service.runtime.backend import Candidates, EncodeBatch, Limits, StepBatch
from service.runtime.scripted import ScriptedBackend
from service.settings import Settings
from service.translation.loaded import LoadedModel
from tests.support.shouting import make_limits, make_model, shouting

ROOT = Path(__file__).parent.parent.parent


class Troubled(ScriptedBackend):
    """Takes its time for each step, and fails now and then."""

    def __init__(self, limits: Limits, step_seconds: float, fail_rate: float) -> None:
        super().__init__(shouting, limits)
        self.step_seconds = step_seconds
        self.fail_rate = fail_rate
        self.random = random.Random(7)

    def encode(self, batch: EncodeBatch) -> None:
        self._fail_perhaps()
        super().encode(batch)

    def step(self, batch: StepBatch) -> Candidates:
        time.sleep(self.step_seconds)
        self._fail_perhaps()
        return super().step(batch)

    def _fail_perhaps(self) -> None:
        if self.random.random() < self.fail_rate:
            raise RuntimeError("a failure made for a test")


async def load_troubled(
    path: Path,
    settings: Settings,
    observer_for: Callable[[str], ModelObserver],
    *,
    load_seconds: float,
    step_seconds: float,
    fail_rate: float,
) -> LoadedModel:
    """In the place of ``service.loading.load_model``. It blocks a thread, as that does."""
    await asyncio.to_thread(time.sleep, load_seconds)
    manifest = Manifest.from_json((path / "manifest.json").read_text(encoding="utf-8"))
    limits = make_limits(settings.slots or 8, settings.max_beam_size)
    backend = Troubled(limits, step_seconds, fail_rate)
    return await make_model(manifest, backend, observer_for(manifest.name))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--step-seconds", type=float, default=0.0, help="of each decoding step")
    parser.add_argument("--fail-rate", type=float, default=0.0, help="share of steps that fail")
    parser.add_argument("--load-seconds", type=float, default=0.0, help="to load a bundle")
    parser.add_argument("--head-seconds", type=float, help="patience with heads of requests")
    parser.add_argument("--body-seconds", type=float, help="patience with bodies")
    options, of_cli = parser.parse_known_args()
    if options.head_seconds is not None:
        PatientProtocol.head_seconds = options.head_seconds
    load = partial(
        load_troubled,
        load_seconds=options.load_seconds,
        step_seconds=options.step_seconds,
        fail_rate=options.fail_rate,
    )

    def build(settings: Settings) -> bootstrap.Service:
        built = bootstrap.build(settings, load)
        for middleware in built.app.user_middleware:
            if middleware.cls is BodyLimit and options.body_seconds is not None:
                middleware.kwargs["seconds"] = options.body_seconds
        return built

    cli.build = build
    return cli.main(["serve", *of_cli])


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
        """Until it answers, or until it is ready."""
        path, wanted = ("/readyz", {200}) if ready else ("/livez", {200})
        while True:
            assert self.process.poll() is None, self.log.read_text()
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(self.address + path).status_code in wanted:
                    return
            time.sleep(0.02)


@contextlib.contextmanager
def running(
    bundles: Path, *arguments: str, ready: bool = True, **settings: Any
) -> Iterator[Server]:
    """A server in a process of its own, with settings by their names in lower case."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DRAGOMAN_")}
    settings = {"state": bundles.parent / "state", **settings}
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
    while True:
        for line in log.read_text(encoding="utf-8").splitlines():
            if line.startswith("Dragoman listens on "):
                return int(line.rsplit(":", 1)[1])
        assert process.poll() is None, log.read_text(encoding="utf-8")
        time.sleep(0.02)


if __name__ == "__main__":
    sys.exit(main())
