from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from models.fetching import argos_index
from models.fetching.argos_index import fetch_package, find, read_index
from models.fetching.errors import FetchFailed
from tests.support.hub import Hub, running_hub

CONTENT = bytes(range(256)) * 1000


@pytest.fixture
def hub() -> Iterator[Hub]:
    with running_hub() as hub:
        yield hub


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


def test_unknown_pairs_and_broken_indexes_are_named(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = read_index(publish(hub))
    with pytest.raises(FetchFailed, match="Argos has no package fr-en"):
        find(packages, "fr-en")
    with pytest.raises(FetchFailed, match="it has no link"):
        fetch_package(packages[0], tmp_path)
    hub.files["index.json"] = b"{}["
    with pytest.raises(FetchFailed, match="is not an index of Argos packages"):
        read_index(f"{hub.address}/files/index.json")
    with pytest.raises(FetchFailed, match="the index of Argos cannot be read"):
        read_index("http://127.0.0.1:9/index.json")
    monkeypatch.setattr(argos_index, "LARGEST_INDEX", 2)
    with pytest.raises(FetchFailed, match="has more than 2 bytes"):
        read_index(f"{hub.address}/files/index.json")


def test_packages_beyond_the_limit_are_refused(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.files["a.argosmodel"] = CONTENT
    package = find(read_index(publish(hub, "a.argosmodel")), "de-en")
    monkeypatch.setattr(argos_index, "LARGEST_PACKAGE", 1000)
    with pytest.raises(FetchFailed, match="has 256000 bytes; 1000 are allowed"):
        fetch_package(package, tmp_path)
