from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from models.importing import side_files
from models.importing.checkpoint import Checkpoint
from models.importing.flat_yaml import read_flat
from models.importing.refusals import NotACheckpoint
from models.importing.side_files import LARGEST, read_bytes, read_json, read_object


def test_content_up_to_the_bound_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_files, "LARGEST", 4)
    (tmp_path / "größe.json").write_bytes(b"1234")
    assert read_json(tmp_path / "größe.json") == 1234


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda path: None, r"has no vocab\.json"),
        (Path.mkdir, "vocab.json is not a plain file|vocab.json cannot be read: Is a directory"),
        (os.mkfifo, r"vocab\.json is not a plain file"),
        (lambda path: path.write_bytes(b"[1]"), r"vocab\.json holds no JSON object"),
        (lambda path: path.write_bytes(b"\xff"), r"vocab\.json cannot be read as JSON"),
        (lambda path: path.write_bytes(b"[" * 100_000), r"vocab\.json cannot be read as JSON"),
        (lambda path: path.write_bytes(b"9" * 100_000), r"vocab\.json cannot be read as JSON"),
    ],
)
def test_unusable_files_are_named(
    tmp_path: Path, make: Callable[[Path], object], error: str
) -> None:
    make(tmp_path / "vocab.json")
    with pytest.raises(NotACheckpoint, match=error):
        read_object(tmp_path / "vocab.json")


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
