"""Tests of unpacking archives of models: bounds, and archives that are hostile or damaged."""

from __future__ import annotations

import os
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from models.importing import archive, side_files
from models.importing.archive import unpacked
from models.importing.checkpoint import Checkpoint
from models.importing.flat_yaml import read_flat
from models.importing.refusals import NotACheckpoint, UnsupportedCheckpoint
from models.importing.side_files import LARGEST, read_bytes, read_json, read_object


def packed(path: Path, write: Callable[[zipfile.ZipFile], object]) -> Path:
    with zipfile.ZipFile(path, "w", compression=zipfile.ZIP_DEFLATED) as archive:
        write(archive)
    return path


def link(archive: zipfile.ZipFile) -> None:
    entry = zipfile.ZipInfo("p/metadata.json")
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    archive.writestr(entry, "/etc/passwd")


def names(*entries: str) -> Callable[[zipfile.ZipFile], object]:
    return lambda archive: [archive.writestr(entry, "{}") for entry in entries]


@pytest.mark.parametrize("top", ["", "package/"])
def test_only_files_that_readers_open_are_unpacked(tmp_path: Path, top: str) -> None:
    kept = ["LICENSE", "decoder.yml", "model/model.bin", "source.spm"]
    left = ["preprocess.sh", "stanza/de/tokenize/model.json", "tokenizer.pt"]
    path = packed(tmp_path / "a.zip", names(*(top + name for name in (*kept, *left))))
    with unpacked(path) as directory:
        found = [file for file in directory.rglob("*") if file.is_file()]
        assert sorted(str(file.relative_to(directory)) for file in found) == kept
        assert (directory / "decoder.yml").read_text() == "{}"
    assert not directory.exists()


def test_directories_and_models_of_marian_are_left_in_place(tmp_path: Path) -> None:
    path = packed(tmp_path / "model.npz", names("a.npy"))
    for each in (tmp_path, path, tmp_path / "absent"):
        with unpacked(each) as found:
            assert found == each


def test_refusals_name_the_archive(tmp_path: Path) -> None:
    path = packed(tmp_path / "a.zip", names("config.json"))
    with (
        pytest.raises(UnsupportedCheckpoint, match=rf"^{path}/config\.json is odd$"),
        unpacked(path) as directory,
    ):
        raise UnsupportedCheckpoint(f"{directory / 'config.json'} is odd")


@pytest.mark.parametrize(
    ("write", "complaint"),
    [
        (names("p/../../metadata.json"), "climbs out of it"),
        (names("/p/metadata.json"), "climbs out of it"),
        (names("p\\..\\..\\metadata.json"), "climbs out of it"),
        (names("C:/p/metadata.json"), "climbs out of it"),
        (names("a.npz", ".\\a.npz"), "twice"),
        (names(f"p/{'ä' * 101}.json"), "200 bytes are allowed"),
        (names("a.npz", "a.npz/b.npz"), "of one name"),
        (link, r"has the link 'p/metadata\.json'"),
        (lambda a: a.writestr("p/vocab.yml", " " * (1 << 24)), "unpacks .* to 16777216 bytes"),
        (names(*(f"p/{i}" for i in range(10_001))), "has 10001 entries"),
        (lambda a: a.writestr("a.json", "[]", zipfile.ZIP_LZMA), "neither stored nor deflated"),
    ],
)
def test_hostile_archives_are_refused_by_name(
    tmp_path: Path, write: Callable[[zipfile.ZipFile], object], complaint: str
) -> None:
    path = packed(tmp_path / "hostile.zip", write)
    with pytest.raises(NotACheckpoint, match=complaint), unpacked(path):
        pytest.fail("it was unpacked")
    assert [file.name for file in tmp_path.iterdir()] == ["hostile.zip"]


def test_too_large_damaged_and_missing_archives_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = packed(tmp_path / "a.zip", lambda a: a.writestr("ä.json", bytes(range(256)) * 16))
    content = path.read_bytes()
    changed = bytearray(content)
    changed[60:90] = bytes(30)
    misnamed = content.replace("ä".encode(), b"\xff\xff")
    for damaged in (content[: len(content) // 2], bytes(changed), misnamed):
        path.write_bytes(damaged)
        with pytest.raises(NotACheckpoint, match="damaged archive"), unpacked(path):
            pytest.fail("it was unpacked")
    absent = tmp_path / "absent.argosmodel"
    with pytest.raises(NotACheckpoint, match="does not exist"), unpacked(absent):
        pytest.fail("it was unpacked")
    monkeypatch.setattr(archive, "LARGEST", 3)
    path = packed(tmp_path / "b.zip", names("a.json", "b.json"))
    with pytest.raises(NotACheckpoint, match="4 bytes; 3 are allowed"), unpacked(path):
        pytest.fail("it was unpacked")


@pytest.mark.parametrize(
    "make",
    [
        lambda path: None,
        Path.mkdir,
        os.mkfifo,
        *(
            lambda path, content=content: path.write_bytes(content)
            for content in (b"[1]", b"\xff", b"[" * 100_000, b"9" * 100_000)
        ),
    ],
)
def test_unusable_files_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], object]
) -> None:
    make(tmp_path / "vocab.json")
    with pytest.raises(NotACheckpoint, match=r"vocab\.json"):
        read_object(tmp_path / "vocab.json")
    # Content up to the bound is read.
    monkeypatch.setattr(side_files, "LARGEST", 4)
    (tmp_path / "größe.json").write_bytes(b"1234")
    assert read_json(tmp_path / "größe.json") == 1234


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("config.json", lambda path: Checkpoint(path.parent)),
        ("decoder.yml", read_flat),
        ("source.spm", read_bytes),
        ("metadata.json", read_object),
    ],
)
def test_files_above_the_bound_are_refused_without_reading_them(
    tmp_path: Path, name: str, read: Callable[[Path], object]
) -> None:
    path = tmp_path / name
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(NotACheckpoint, match=f"{name} has more than {LARGEST} bytes"):
        read(path)
