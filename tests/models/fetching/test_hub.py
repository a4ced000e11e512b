"""Tests of fetching from a stand-in of the hub: resuming, verifying, refusing."""

from __future__ import annotations

import shutil
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from models.fetching.errors import FetchFailed
from models.fetching.hub import fetch_repository
from tests.support.hub import COMMIT, Hub, running_hub, use_hub

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
        use_hub(monkeypatch, hub.address, tmp_path / "cache")
        yield hub


def test_needed_files_are_fetched_once(hub: Hub) -> None:
    fetched = fetch_repository(NAME)
    assert fetched.commit == COMMIT
    assert (fetched.directory / "model.safetensors").read_bytes() == WEIGHTS
    names = {path.name for path in fetched.directory.iterdir()}
    assert names == {"config.json", "README.md", "source.spm", "model.safetensors"}
    before = len(hub.ranges_of("model.safetensors"))
    fetch_repository(NAME)
    assert len(hub.ranges_of("model.safetensors")) == before == 1


def test_interrupted_download_is_resumed(hub: Hub) -> None:
    hub.cut["model.safetensors"] = 200_000
    for _ in range(3):
        try:
            fetched = fetch_repository(NAME)
        except FetchFailed as error:
            assert "continues where this one stopped" in str(error)
        else:
            break
    assert (fetched.directory / "model.safetensors").read_bytes() == WEIGHTS
    first, second = hub.ranges_of("model.safetensors")
    assert first in {"", "bytes=0-"}
    assert second.startswith("bytes=") and second != "bytes=0-"


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_file_with_a_wrong_hash_is_deleted_and_named(hub: Hub, name: str, tmp_path: Path) -> None:
    hub.wrong.add(name)
    with pytest.raises(FetchFailed, match=f"{name} of {NAME} has another hash"):
        fetch_repository(NAME)
    assert not list((tmp_path / "cache").rglob(f"snapshots/*/{name}"))
    hub.wrong.clear()
    fetch_repository(NAME)


def test_missing_files_and_repositories_are_named(hub: Hub) -> None:
    hub.absent.add("source.spm")
    with pytest.raises(FetchFailed, match=rf"{NAME} cannot be fetched from .*answers 404"):
        fetch_repository(NAME)
    with pytest.raises(FetchFailed, match="has no model a/b, or it is private"):
        fetch_repository("a/b")
    with pytest.raises(FetchFailed, match="is not the name of a model"):
        fetch_repository("a/b/c d")


def test_repository_without_readable_weights_is_refused(hub: Hub) -> None:
    for name in ("model.safetensors", "pytorch_model.bin"):
        (hub.repositories[NAME] / name).unlink()
    with pytest.raises(FetchFailed, match=r"has none of model\.safetensors, pytorch_model\.bin"):
        fetch_repository(NAME)


def test_full_disk_is_reported_before_anything_is_fetched(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**6, 10**6, 1000))
    with pytest.raises(FetchFailed, match=r"has 0\.0 GB, and .* has room for 0\.0 GB; HF_HOME"):
        fetch_repository(NAME)
    assert hub.ranges_of("config.json") == []


def test_no_network_is_one_line(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(FetchFailed) as found:
        fetch_repository(NAME)
    assert f"{NAME} cannot be fetched from http://127.0.0.1:9" in str(found.value)
    assert "\n" not in str(found.value)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(FetchFailed, match="HF_HUB_OFFLINE is set"):
        fetch_repository(NAME)
