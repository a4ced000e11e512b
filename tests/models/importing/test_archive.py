"""Tests of unpacking archives of models: bounds, and archives that are hostile or damaged."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from models.importing import archive
from models.importing.archive import unpacked
from models.importing.refusals import NotACheckpoint, UnsupportedCheckpoint


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
    ],
)
def test_hostile_archives_are_refused_by_name(
    tmp_path: Path, write: Callable[[zipfile.ZipFile], object], complaint: str
) -> None:
    path = packed(tmp_path / "hostile.zip", write)
    with pytest.raises(NotACheckpoint, match=complaint), unpacked(path):
        pytest.fail("it was unpacked")
    assert [file.name for file in tmp_path.iterdir()] == ["hostile.zip"]


def test_archives_that_unpack_to_too_much_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "LARGEST", 3)
    path = packed(tmp_path / "a.zip", names("a.json", "b.json"))
    with pytest.raises(NotACheckpoint, match="unpacks to 4 bytes; 3 are allowed"), unpacked(path):
        pytest.fail("it was unpacked")


def test_damaged_archives_are_refused(tmp_path: Path) -> None:
    content = packed(
        tmp_path / "a.zip", lambda a: a.writestr("a.json", bytes(range(256)) * 16)
    ).read_bytes()
    changed = bytearray(content)
    changed[60:90] = bytes(30)
    for damaged in (content[: len(content) // 2], bytes(changed)):
        (tmp_path / "a.zip").write_bytes(damaged)
        with (
            pytest.raises(NotACheckpoint, match="damaged archive"),
            unpacked(tmp_path / "a.zip"),
        ):
            pytest.fail("it was unpacked")
    with (
        pytest.raises(NotACheckpoint, match="does not exist"),
        unpacked(tmp_path / "absent.argosmodel"),
    ):
        pytest.fail("it was unpacked")
