"""Compares docs/architecture.md with the modules that a real ``POST /translate`` runs through."""

from __future__ import annotations

import asyncio
import re
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import httpx
import uvicorn

from service.bootstrap import running
from service.server.http_protocol import PatientProtocol
from service.settings import Settings
from tests.support.fronts import owning, worker_of
from tests.support.programs import ROOT
from tests.support.toy import put_bundle

BUNDLE = ROOT / "bundles" / "general-de-en"
IN_THE_BACKGROUND = {
    f"service/state/{name}" for name in ("announcements", "database", "revisions", "schema")
}
"""They write the ledger and look for announcements once a second, whatever is requested."""
MOST_MODULES, MOST_TYPES, MOST_BEHIND_A_WORKER = 57, 9, 8


class Tracer:
    """Records the modules of this project whose functions run, in any thread started later."""

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self.on = False

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if self.on and event == "call":
            path = Path(frame.f_code.co_filename)
            if path.is_relative_to(ROOT) and path.parts[len(ROOT.parts)] in ("service", "models"):
                self.modules.add(str(path.relative_to(ROOT).with_suffix("")))

    @contextmanager
    def installed(self) -> Iterator[None]:
        before, before_in_threads = sys.getprofile(), threading.getprofile()
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(before)
            threading.setprofile(before_in_threads)


@contextmanager
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


async def traced_modules(directory: Path) -> set[str]:
    """The modules whose functions run while one text is translated over a socket."""
    (directory / "bundles").mkdir()
    (directory / "bundles" / BUNDLE.name).symlink_to(BUNDLE)
    settings = Settings(
        bundles=directory / "bundles",
        state=directory / "state",
        device="cpu",
        threads=1,
        reload_seconds=0,
        # Otherwise queued ones are looked for once a second.
        documents=False,
    )
    tracer = Tracer()
    with tracer.installed(), listening() as listener:
        async with running(settings) as service:
            config = uvicorn.Config(
                service.app, http=PatientProtocol, lifespan="off", log_config=None
            )
            server = uvicorn.Server(config)
            serving = asyncio.create_task(server._serve([listener]))
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            async with httpx.AsyncClient(base_url=url) as client:
                body = {"q": "Guten Tag.", "source": "de", "target": "en"}
                # The first request also fills caches that last as long as the process.
                await client.post("/translate", json=body)
                tracer.on = True
                answer = await client.post("/translate", json=body | {"q": "Wo ist der Hund?"})
                tracer.on = False
            assert answer.status_code == 200
            server.should_exit = True
            await serving
    return tracer.modules - IN_THE_BACKGROUND


async def traced_modules_of_a_worker(directory: Path) -> set[str]:
    """The modules whose functions run while a worker has one text decoded by its owner."""
    put_bundle(directory / "bundles", "shout-de-en", "de", "en")
    settings = Settings(
        bundles=directory / "bundles",
        state=directory / "state",
        reload_seconds=0,
        documents=False,
    )
    tracer = Tracer()
    with tracer.installed():
        async with (
            owning(settings, directory / "owner"),
            worker_of(settings, directory / "owner") as (_, client),
        ):
            body = {"q": "wort", "source": "de", "target": "en"}
            await client.post("/translate", json=body)
            tracer.on = True
            answer = await client.post("/translate", json=body | {"q": "noch ein wort"})
            tracer.on = False
        assert answer.status_code == 200
    return tracer.modules - IN_THE_BACKGROUND


def documented() -> tuple[list[tuple[str, set[str]]], set[str]]:
    """Types with the modules of each, and the modules behind a worker, as the page lists them."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("## The path of `POST /translate`")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", section, re.MULTILINE)[1:]
    path = [(types, modules_in(modules)) for types, modules in rows if "`" in modules]
    return path, modules_in(section.rpartition("|")[2])


def modules_in(text: str) -> set[str]:
    names = re.findall(r"`([a-z_]+(?:/[a-z_0-9]+)+)`", text)
    return {name if name.startswith("models/") else f"service/{name}" for name in names}


async def test_request_runs_through_the_documented_modules(tmp_path: Path) -> None:
    path, _ = documented()
    listed = set[str]().union(*(modules for _, modules in path))
    traced = await traced_modules(tmp_path)
    assert sorted(traced - listed) == [], "not documented"
    assert sorted(listed - traced) == [], "not on the path any more"


async def test_request_behind_a_worker_runs_through_few_more_modules(tmp_path: Path) -> None:
    path, behind = documented()
    listed = set[str]().union(*(modules for _, modules in path))
    traced = await traced_modules_of_a_worker(tmp_path)
    assert sorted(traced - listed - behind) == [], "not documented"
    assert sorted(behind - traced) == [], "not on the path any more"
    assert len(behind) <= MOST_BEHIND_A_WORKER


def test_path_has_few_modules_and_types() -> None:
    path, _ = documented()
    modules = [module for _, of_type in path for module in of_type]
    assert len(modules) == len(set(modules)) <= MOST_MODULES
    types = [name for names, _ in path for name in re.findall(r"`(\w+)`", names)]
    assert len(types) == len(set(types)) <= MOST_TYPES
    for name in types:
        sources = [(ROOT / module).with_suffix(".py").read_text("utf-8") for module in modules]
        assert any(f"\nclass {name}" in source for source in sources), name
