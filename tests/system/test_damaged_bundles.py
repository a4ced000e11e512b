"""Files of a served bundle are damaged in every way while a server translates under load."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from benchmarks.server import serving
from models.bundle.bundle import MANIFEST
from models.bundle.manifest import Manifest
from tests.loading.test_served_files import DAMAGES

pytestmark = pytest.mark.slow
BUNDLE = Path(__file__).parents[2] / "bundles" / "general-de-en"
ADMIN = {"authorization": "Bearer admin"}
SENTENCES = [
    "Zwei Hunde spielen im Schnee.",
    "Eine Frau liest ein Buch.",
    "<b>Ein Mann</b> fährt mit dem Rad.",
    "Die Kinder sehen einen Film.",
]


@dataclass
class Load:
    """Translates the same sentences over and over, and compares with the first translations."""

    url: str
    expected: list[str] = field(default_factory=list)
    rounds: int = 0
    wrong: list[object] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    advanced: threading.Condition = field(default_factory=threading.Condition)

    def run(self) -> None:
        with httpx.Client(base_url=self.url, timeout=60) as client:
            while not self.over.is_set():
                body = {"q": SENTENCES, "source": "de", "target": "en", "format": "html"}
                try:
                    answer = client.post("/translate", json=body)
                    texts = answer.json().get("translatedText", answer.text)
                except httpx.TransportError as error:
                    texts = repr(error)
                self.expected = self.expected or texts
                if texts != self.expected:
                    self.wrong.append(texts)
                with self.advanced:
                    self.rounds += 1
                    self.advanced.notify_all()

    def wait(self) -> None:
        """Wait for the answer to a request that was sent after this call."""
        with self.advanced:
            until = self.rounds + 2
            assert self.advanced.wait_for(lambda: self.rounds >= until, 60)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("damaged") / "bundles" / BUNDLE.name
    shutil.copytree(BUNDLE, copy)
    return copy


@pytest.fixture(scope="module")
def load(bundle: Path) -> Iterator[Load]:
    # The result cache is off, so that every sentence is decoded.
    settings = {"RESULT_MEGABYTES": "0", "RELOAD_SECONDS": "0", "ADMIN_KEY": "admin"}
    with serving(bundle.parent, **settings) as (url, _):
        load = Load(url)
        thread = threading.Thread(target=load.run)
        thread.start()
        load.wait()
        yield load
        load.over.set()
        thread.join()


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damaged_files_of_a_served_bundle_change_no_translation_and_fail_the_reload(
    damage: Callable[[Path], None], bundle: Path, load: Load
) -> None:
    manifest = Manifest.from_json((bundle / MANIFEST).read_text(encoding="utf-8"))
    for name in [*manifest.files, MANIFEST]:
        if (damage, name) == (Path.unlink, MANIFEST):
            # A directory without a manifest is no bundle: its model is retired.
            continue
        file = bundle / name
        content = file.read_bytes()
        damage(file)
        try:
            answer = httpx.post(f"{load.url}/models/reload", headers=ADMIN, timeout=60)
            assert answer.status_code == 200
            assert name in answer.json()["failed"][bundle.name]
            assert BUNDLE.name in httpx.get(f"{load.url}/readyz", timeout=60).json()["failed"]
            load.wait()
        finally:
            file.write_bytes(content)
    assert load.wrong == []
    answer = httpx.post(f"{load.url}/models/reload", headers=ADMIN, timeout=60)
    assert answer.json()["failed"] == {}
