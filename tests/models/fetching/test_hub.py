"""Tests of fetching from a stand-in of the hub: resuming, verifying, refusing."""

from __future__ import annotations

import shutil
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants, file_download

from models.fetching.errors import FetchFailed
from models.fetching.hub import fetch_repository
from tests.support.hub import COMMIT, Hub, running_hub, use_hub
from tests.support.raising import raiser

NAME = "Helsinki-NLP/opus-mt-de-en"
WEIGHTS = bytes(range(256)) * 2000


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    repository = tmp_path / "repository"
    repository.mkdir()
    for name, content in {
        "config.json": b"{}",
        "README.md": b"---\nlicense: apache-2.0\n---\n",
        "source.spm": b"spm",
        "model.safetensors": WEIGHTS,
        "pytorch_model.bin": b"not needed",
        "tf_model.h5": b"not needed",
    }.items():
        (repository / name).write_bytes(content)
    with running_hub() as hub:
        hub.repositories[NAME] = repository
        use_hub(monkeypatch, hub.address)
        yield hub


@pytest.fixture
def downloads(tmp_path: Path) -> Path:
    return tmp_path / "downloads"


def test_needed_files_are_fetched_once(hub: Hub, downloads: Path) -> None:
    fetched = fetch_repository(NAME, downloads)
    assert fetched.commit == COMMIT
    assert (fetched.directory / "model.safetensors").read_bytes() == WEIGHTS
    names = {path.name for path in fetched.directory.iterdir()}
    assert names == {"config.json", "README.md", "source.spm", "model.safetensors"}
    before = len(hub.ranges_of("model.safetensors"))
    fetch_repository(NAME, downloads)
    assert len(hub.ranges_of("model.safetensors")) == before == 1


def test_broken_connection_is_resumed(hub: Hub, downloads: Path) -> None:
    hub.cut["model.safetensors"] = 200_000
    fetched = fetch_repository(NAME, downloads)
    assert (fetched.directory / "model.safetensors").read_bytes() == WEIGHTS
    whole, rest = hub.ranges_of("model.safetensors")
    assert whole == "" and rest.startswith("bytes=") and rest != "bytes=0-"


def test_interrupted_command_continues_where_it_stopped(
    hub: Hub, downloads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    hub.cut["model.safetensors"] = 200_000
    with monkeypatch.context() as patches, pytest.raises(KeyboardInterrupt):
        # Ctrl-C, while the library waits before it asks again.
        patches.setattr(file_download.time, "sleep", raiser(KeyboardInterrupt()))
        fetch_repository(NAME, downloads)
    (part,) = downloads.rglob("*.part")
    kept = part.stat().st_size
    assert 0 < kept <= 200_000
    fetched = fetch_repository(NAME, downloads)
    assert (fetched.directory / "model.safetensors").read_bytes() == WEIGHTS
    assert hub.ranges_of("model.safetensors") == ["", f"bytes={kept}-"]
    assert not list(downloads.rglob("*.part"))


def test_complete_part_is_not_fetched_again(hub: Hub, downloads: Path) -> None:
    weights = fetch_repository(NAME, downloads).directory / "model.safetensors"
    weights.rename(weights.with_name("model.safetensors.part"))
    fetch_repository(NAME, downloads)
    assert weights.read_bytes() == WEIGHTS
    assert len(hub.ranges_of("model.safetensors")) == 1


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_file_with_a_wrong_hash_is_deleted_and_named(hub: Hub, name: str, downloads: Path) -> None:
    hub.wrong.add(name)
    with pytest.raises(FetchFailed, match=f"{name} of {NAME} has another hash"):
        fetch_repository(NAME, downloads)
    assert not list(downloads.rglob(f"{name}*"))
    hub.wrong.clear()
    fetch_repository(NAME, downloads)


def test_missing_files_and_repositories_are_named(hub: Hub, downloads: Path) -> None:
    hub.absent.add("source.spm")
    with pytest.raises(
        FetchFailed, match=rf"{NAME} cannot be fetched from .*answers 404 for source.spm"
    ):
        fetch_repository(NAME, downloads)
    with pytest.raises(FetchFailed, match="has no model a/b, or it is private"):
        fetch_repository("a/b", downloads)
    with pytest.raises(FetchFailed, match="is not the name of a model"):
        fetch_repository("a/b/c d", downloads)


def test_repository_without_readable_weights_is_refused(hub: Hub, downloads: Path) -> None:
    for name in ("model.safetensors", "pytorch_model.bin"):
        (hub.repositories[NAME] / name).unlink()
    with pytest.raises(FetchFailed, match=r"has none of model\.safetensors, pytorch_model\.bin"):
        fetch_repository(NAME, downloads)


def test_full_disk_is_reported_before_anything_is_fetched(
    hub: Hub, downloads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**6, 10**6, 1000))
    with pytest.raises(FetchFailed, match=r"needs 0\.5 MB more, .* room for 0\.0 MB; DRAGOMAN_"):
        fetch_repository(NAME, downloads)
    assert hub.ranges_of("config.json") == []


def test_no_network_is_one_line(hub: Hub, downloads: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(FetchFailed) as found:
        fetch_repository(NAME, downloads)
    assert f"{NAME} cannot be fetched from http://127.0.0.1:9" in str(found.value)
    assert "\n" not in str(found.value)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(FetchFailed, match="HF_HUB_OFFLINE is set"):
        fetch_repository(NAME, downloads)
