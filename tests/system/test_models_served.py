"""Tests of fetching, importing and serving a model of a stand-in hub with one command."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from models.bundle.bundle import Bundle
from service.commands.models import DOWNLOADS
from tests.support.checkpoints import sentences, write_marian
from tests.support.firefox import SIZES, write_firefox
from tests.support.firefox_index import publish, records_of
from tests.support.hub import Hub, running_hub
from tests.support.programs import ROOT
from tests.support.server import running

NAME = "Helsinki-NLP/opus-mt-es-en"
WEIGHTS = "model.safetensors"
TEXT = sentences("source", 1, seed=11)[0]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained model. Its words are German; it calls its languages Spanish and English."""
    directory = tmp_path_factory.mktemp("repository") / "opus"
    write_marian(directory, taught=True, languages=("spa", "eng"))
    return directory


@pytest.fixture
def hub(checkpoint: Path) -> Iterator[Hub]:
    with running_hub() as hub:
        hub.repositories[NAME] = checkpoint
        yield hub


@pytest.fixture
def bundles(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a service without bundles, which asks the stand-in."""
    monkeypatch.setenv("HF_ENDPOINT", hub.address)
    directory = tmp_path / "bundles"
    directory.mkdir()
    return directory


def translated(address: str) -> str:
    answer = httpx.post(f"{address}/translate", json={"q": TEXT, "source": "es", "target": "en"})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["translatedText"])


def added(bundles: Path, settings: dict[str, str], **options: Any) -> list[str]:
    """Error lines of the command that ``serve`` runs before it serves."""
    environment = {f"DRAGOMAN_{name.upper()}": value for name, value in settings.items()}
    outcome = subprocess.run(
        [sys.executable, "-m", "service", "models", "add", "--missing", "--bundles", str(bundles)],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
        **options,
    )
    return [line for line in outcome.stderr.splitlines() if line.startswith("dragoman: ")]


@pytest.mark.slow
def test_pair_is_fetched_despite_an_interruption_imported_and_served(
    hub: Hub, bundles: Path, checkpoint: Path
) -> None:
    # The connection breaks in the middle of the weights.
    hub.cut[WEIGHTS] = (checkpoint / WEIGHTS).stat().st_size // 2
    with running(bundles, "--real", models="es-en") as server:
        first_answer = translated(server.address)
        assert "licence: cc-by-4.0" in server.log.read_text(encoding="utf-8")
    # The library keeps chunks of 10 MB, more than this file has; test_hub has smaller ones.
    assert len(hub.ranges_of(WEIGHTS)) == 2
    manifest = Bundle.open(bundles / "opus-mt-es-en").manifest
    assert manifest.precisions == ("int8", "fp16")
    # The second start needs no hub.
    hub.requests.clear()
    with running(bundles, "--real", models="es-en") as server:
        assert translated(server.address) == first_answer
    assert hub.requests == []


@pytest.mark.slow
def test_firefox_model_is_fetched_despite_an_interruption_imported_and_served(
    hub: Hub, bundles: Path, tmp_path: Path
) -> None:
    written = write_firefox(tmp_path / "model", SIZES["small"], lexical=True)
    text = written.sentences(1, seed=3)[0]
    settings = {
        "models": "de-en",
        "firefox_records": publish(hub, *records_of(hub, tmp_path / "model", ("de", "en"))),
        "firefox_attachments": f"{hub.address}/files",
    }
    packed = f"models/2.0-{written.model.name}.zst"
    hub.cut[packed] = 5000
    pair = {"source": "de", "target": "en"}
    (line,) = added(bundles, settings)
    assert "continues where this one stopped" in line
    assert list(bundles.glob("[!.]*")) == []
    with (
        running(bundles, "--real", **settings) as server,
        httpx.Client(base_url=server.address) as client,
    ):
        assert len(hub.ranges_of(packed)) == 2
        answers = []
        for beam_size in (1, 4):
            sent = {"q": text, **pair, "beam_size": beam_size}
            answers.append(client.post("/translate", json=sent).json()["translatedText"])
        assert all(answers)
        texts = {**pair, "source_text": text, "target_text": answers[0]}
        for kind in ("cross", "encoder"):
            maps = client.post("/attention", json={**texts, "kind": kind, "alignment": True})
            assert maps.status_code == 200, maps.text
        refused = client.post("/attention", json={**texts, "kind": "decoder"})
        assert refused.status_code == 400 and "SSRU" in refused.text
        scores = client.post("/score", json={**texts, "confidence": True}).json()["scores"]
        assert scores[0]["log_prob"] < 0


def limit_file_sizes() -> None:
    """The kernel refuses to write further bytes, as on a full disk."""
    size = 20_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.slow
def test_each_failure_is_one_line_and_leaves_nothing_half_imported(
    hub: Hub, bundles: Path, checkpoint: Path, tmp_path: Path
) -> None:
    def refusal(model: str = "es-en", **options: Any) -> str:
        (line,) = added(bundles, {"models": model}, **options)
        assert line.startswith(f"dragoman: {model} is not added: ")
        assert list(bundles.glob("[!.]*")) == []
        return line

    hub.absent.add("source.spm")
    assert "it answers 404 for source.spm" in refusal()
    hub.absent.clear()
    assert "cannot be stored" in refusal(preexec_fn=limit_file_sizes)
    # The stand-in has one commit only, whose files would be kept.
    shutil.rmtree(bundles / DOWNLOADS)
    incomplete = tmp_path / "incomplete"
    shutil.copytree(checkpoint, incomplete)
    (incomplete / "vocab.json").unlink()
    hub.repositories[NAME] = incomplete
    assert "has no vocab.json" in refusal()
    # The model is there, and the bundle does not fit.
    assert "File too large" in refusal(str(checkpoint), preexec_fn=limit_file_sizes)
