from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from training.disk import CannotWrite, megabytes, writing, writing_to


def test_full_disk_error_names_the_needed_space(tmp_path: Path) -> None:
    with (
        pytest.raises(CannotWrite, match=r"is full: [\d,]+ MB are free; about 12 MB are needed"),
        writing(tmp_path / "runs" / "one", lambda: 12_300_000),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_file_in_place_of_the_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    with (
        pytest.raises(
            CannotWrite, match=r"runs/one cannot be used: .*; change that, or choose another place"
        ),
        writing(tmp_path / "runs" / "one"),
    ):
        (tmp_path / "runs" / "one").mkdir(parents=True)


def test_other_os_errors_propagate_unchanged(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), writing(tmp_path):
        (tmp_path / "missing").read_text()


def test_megabytes_are_at_least_one() -> None:
    assert [megabytes(count) for count in (0, 1, 1_400_000, 2_000_000_000)] == [
        "0 MB",
        "1 MB",
        "1 MB",
        "2,000 MB",
    ]


def test_of_several_disks_the_full_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "full").mkdir()
    free = {tmp_path: 5_000_000_000, tmp_path / "full": 0}
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=free[path]))
    places = {"--runs": tmp_path / "runs", "--bundles": tmp_path / "full"}
    with (
        pytest.raises(CannotWrite, match=r"full is full: 0 MB are free; .* with --bundles$"),
        writing_to(lambda: places),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
