from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from models.fetching import firefox
from models.fetching.catalogue import (
    firefox_of,
    pairs,
    prefers_firefox,
    read_catalogue,
    read_firefox,
)
from models.fetching.errors import FetchFailed
from models.fetching.firefox import FirefoxModel, fetch_model, find, read_records
from models.zstandard import zstd
from tests.support.firefox_index import publish, records_of
from tests.support.hub import Hub, running_hub

MODEL = "model.deen.intgemm.alphas.bin"
CONTENT = bytes(range(256)) * 800


@pytest.fixture
def hub() -> Iterator[Hub]:
    with running_hub() as hub:
        yield hub


@pytest.fixture
def files(tmp_path: Path) -> Path:
    directory = tmp_path / "files"
    directory.mkdir()
    (directory / MODEL).write_bytes(CONTENT)
    (directory / "vocab.deen.spm").write_bytes(b"pieces")
    return directory


def fetch(hub: Hub, model: FirefoxModel, downloads: Path) -> Path:
    return fetch_model(model, f"{hub.address}/files/", downloads)


def test_interrupted_download_is_resumed_verified_and_kept(
    hub: Hub, files: Path, tmp_path: Path
) -> None:
    model = find(read_records(publish(hub, *records_of(hub, files, ("de", "en")))), "de-en")
    packed = f"models/2.0-{MODEL}.zst"
    hub.files[packed] = zstd.compress(CONTENT, options={zstd.CompressionParameter.checksum_flag: 1})
    hub.cut[packed] = 100
    with pytest.raises(FetchFailed, match=r"de-en cannot be fetched: .* continues where"):
        fetch(hub, model, tmp_path / "downloads")
    directory = fetch(hub, model, tmp_path / "downloads")
    assert hub.ranges_of(packed)[1].startswith("bytes=")
    assert (directory / MODEL).read_bytes() == CONTENT
    assert {file.name for file in directory.iterdir()} == {MODEL, "vocab.deen.spm", "README.md"}
    hub.requests.clear()
    assert fetch(hub, model, tmp_path / "downloads") == directory
    assert hub.requests == []


def test_wrong_hashes_damaged_and_missing_files_are_named_and_deleted(
    hub: Hub, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = records_of(hub, files, ("de", "en"))
    model = find(read_records(publish(hub, *records)), "de-en")
    packed = f"models/2.0-{MODEL}.zst"
    good = hub.files[packed]
    for content, complaint in (
        (zstd.compress(b"other"), "another hash than Mozilla's index says"),
        (b"no frame at all", "is damaged, and was deleted"),
        (None, "404"),
    ):
        hub.files[packed] = content  # type: ignore[assignment]
        with pytest.raises(FetchFailed, match=complaint):
            fetch(hub, model, tmp_path / "downloads")
        (directory,) = (tmp_path / "downloads").iterdir()
        assert not [file for file in directory.iterdir() if file.name.startswith(MODEL)]
    hub.files[packed] = good
    monkeypatch.setattr(firefox, "LARGEST_FILE", 1000)
    with pytest.raises(FetchFailed, match="1000"):
        fetch(hub, model, tmp_path / "downloads")
    monkeypatch.undo()

    def full(*_: Any) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(firefox, "_unpack", full)
    with pytest.raises(FetchFailed, match="no space is left on the disk"):
        fetch(hub, model, tmp_path / "downloads")


def test_newest_version_of_a_supported_major_one_is_found(hub: Hub, files: Path) -> None:
    versions = ("1.3", "2.0", "2.1a1", "2.1", "2.0a9", "3.0")
    records = [r for v in versions for r in records_of(hub, files, ("de", "en"), v)]
    records += records_of(hub, files, ("de", "en"), "2.0", architecture="base")
    records += records_of(hub, files, ("fr", "en"), "3.0")
    # Half a model, a name that climbs out, a version that is none.
    records += records_of(hub, files, ("es", "en"))[:1]
    records += records_of(hub, files, ("it", "en"), name="../../x")
    records += records_of(hub, files, ("nl", "en"), "latest")
    models = read_records(publish(hub, *records))
    assert find(models, "de-en", ["tiny", "base"]).version == "2.1"
    assert find(models, "de-en").architecture == "base"
    with pytest.raises(FetchFailed, match=r"has the version 3\.0; major versions 1 and 2"):
        find(models, "fr-en")
    for pair in ("es-en", "it-en", "nl-en", "xx-en"):
        with pytest.raises(FetchFailed, match=f"Firefox has no model {pair}"):
            find(models, pair)


@pytest.mark.parametrize("content", [b"{}[", b"[]", b'{"data": 1}', b'{"data": [{"name": "x"}]}'])
def test_broken_indexes_are_named(hub: Hub, content: bytes) -> None:
    hub.files["records.json"] = content
    with pytest.raises(FetchFailed, match="is not an index of Firefox's models"):
        read_records(f"{hub.address}/files/records.json")


def test_unreachable_or_endless_index_is_named(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FetchFailed, match="the index of Firefox's models cannot be read"):
        read_records("http://127.0.0.1:9/records")
    address = publish(hub, json.loads('{"name": "x"}'))
    monkeypatch.setattr(firefox, "LARGEST_INDEX", 2)
    with pytest.raises(FetchFailed, match="has more than 2 bytes"):
        read_records(address)


def test_tables_prefer_the_best_score() -> None:
    assert len(read_firefox()) == 137
    assert [entry.architecture for entry in firefox_of("de-en")] == ["base", "base-memory", "tiny"]
    assert prefers_firefox("de-en")
    # OPUS-MT has 27.6 BLEU, Firefox 27.5.
    assert not prefers_firefox("es-en") and firefox_of("es-en")
    assert not prefers_firefox("xx-en")
    assert {entry.pair for entry in read_catalogue()} <= pairs()
