"""Tests of fetching from a stand-in of the hub: resuming, verifying, refusing."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants, file_download

from models.fetching import argos_index
from models.fetching.argos_index import fetch_package, find, read_index
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


def test_missing_files_repositories_and_weights_are_named(hub: Hub, downloads: Path) -> None:
    hub.absent.add("source.spm")
    for name, named in ((NAME, r"source\.spm"), ("a/b", "a/b"), ("a/b/c d", "a/b/c d")):
        with pytest.raises(FetchFailed, match=named):
            fetch_repository(name, downloads)
    for file in ("model.safetensors", "pytorch_model.bin"):
        (hub.repositories[NAME] / file).unlink()
    with pytest.raises(FetchFailed, match=r"model\.safetensors, pytorch_model\.bin"):
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


_PACKED = io.BytesIO()
with zipfile.ZipFile(_PACKED, "w") as _package:
    _package.writestr("model.bin", bytes(range(256)) * 1000)
CONTENT = _PACKED.getvalue()


def publish(hub: Hub, *links: str, **changes: Any) -> str:
    """The address of an index of two versions of a package and one that does not translate."""
    entry = {
        "from_code": "de",
        "to_code": "en",
        "package_version": "1.9",
        "links": ["ipfs://x", *(f"{hub.address}/files/{link}" for link in links)],
        **changes,
    }
    older = {**entry, "package_version": "1.2", "links": []}
    sentences = {"type": "sbd", "package_version": "1.0", "links": []}
    hub.files["index.json"] = json.dumps([entry, older, sentences]).encode()
    return f"{hub.address}/files/index.json"


def test_newest_package_of_a_pair_is_fetched_and_resumed(hub: Hub, tmp_path: Path) -> None:
    hub.files["a.argosmodel"] = CONTENT
    package = find(read_index(publish(hub, "a.argosmodel")), "de-en")
    assert (package.version, package.file) == ("1.9", "argos-de-en-1_9.argosmodel")
    hub.cut["a.argosmodel"] = 100_000
    with pytest.raises(FetchFailed, match="continues where this one stopped"):
        fetch_package(package, tmp_path / "downloads")
    path = fetch_package(package, tmp_path / "downloads")
    assert path.read_bytes() == CONTENT
    assert hub.ranges_of("a.argosmodel")[1].startswith("bytes=")
    assert [file.name for file in path.parent.iterdir()] == [package.file]


def test_another_link_is_tried_if_one_fails(hub: Hub, tmp_path: Path) -> None:
    hub.files["b.argosmodel"] = CONTENT
    package = find(read_index(publish(hub, "absent", "b.argosmodel")), "de-en")
    assert fetch_package(package, tmp_path).read_bytes() == CONTENT


def test_damaged_package_is_deleted_and_another_link_begins_anew(hub: Hub, downloads: Path) -> None:
    hub.files |= {"a.argosmodel": b"<html>" * 1000, "b.argosmodel": CONTENT}
    package = find(read_index(publish(hub, "a.argosmodel")), "de-en")
    downloads.mkdir()
    (downloads / package.file).write_bytes(b"<html>")
    with pytest.raises(FetchFailed, match=r"a\.argosmodel gives no whole zip archive \(File is"):
        fetch_package(package, downloads)
    assert not list(downloads.iterdir())
    hub.cut["a.argosmodel"] = 2000
    package = find(read_index(publish(hub, "a.argosmodel", "b.argosmodel")), "de-en")
    assert fetch_package(package, downloads).read_bytes() == CONTENT
    assert [file.name for file in downloads.iterdir()] == [package.file]


def test_unknown_pairs_and_broken_or_too_large_files_are_named(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.files["a.argosmodel"] = CONTENT
    packages = read_index(publish(hub, "a.argosmodel"))
    with pytest.raises(FetchFailed, match="fr-en"):
        find(packages, "fr-en")
    monkeypatch.setattr(argos_index, "LARGEST_PACKAGE", 1000)
    with pytest.raises(FetchFailed, match="bytes; 1000 are allowed"):
        fetch_package(packages[0], tmp_path)
    with pytest.raises(FetchFailed, match="no link"):
        fetch_package(read_index(publish(hub))[0], tmp_path)
    index = f"{hub.address}/files/index.json"
    hub.files["index.json"] = b"{}["
    for address in (index, "http://127.0.0.1:9/index.json"):
        with pytest.raises(FetchFailed, match="index of Argos"):
            read_index(address)
    monkeypatch.setattr(argos_index, "LARGEST_INDEX", 2)
    with pytest.raises(FetchFailed, match="2 bytes"):
        read_index(index)
