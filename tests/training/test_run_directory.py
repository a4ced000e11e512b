from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from training.cli import main
from training.disk import CannotWrite, megabytes, writing, writing_to
from training.run_directory import RunDirectory
from training.run_lock import RunInUse, locked


def test_full_disk_error_names_the_needed_space(tmp_path: Path) -> None:
    with (
        pytest.raises(CannotWrite, match="about 12 MB"),
        writing(tmp_path / "runs" / "one", lambda: 12_300_000),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_file_in_place_of_the_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    path = tmp_path / "runs" / "one"
    with pytest.raises(CannotWrite, match="runs/one"), writing(path):
        path.mkdir(parents=True)
    # Other errors propagate unchanged.
    with pytest.raises(FileNotFoundError), writing(tmp_path):
        (tmp_path / "missing").read_text()


@pytest.mark.parametrize("number", [errno.EFBIG, errno.EIO])
def test_file_size_limit_and_failing_disk_are_refusals(tmp_path: Path, number: int) -> None:
    with pytest.raises(CannotWrite), writing(tmp_path):
        raise OSError(number, os.strerror(number))


def test_megabytes_are_at_least_one() -> None:
    assert [megabytes(count) for count in (0, 1, 1_400_000)] == ["0 MB", "1 MB", "1 MB"]
    assert megabytes(2_000_000_000) == "2,000 MB"


def test_of_several_disks_the_full_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "full").mkdir()
    free = {tmp_path: 5_000_000_000, tmp_path / "full": 0}
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=free[path]))
    places = {"--runs": tmp_path / "runs", "--bundles": tmp_path / "full"}
    with (
        pytest.raises(CannotWrite, match=r"full is full: 0 MB .* --bundles"),
        writing_to(lambda: places),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


HOLDER = """
import pathlib, sys
from training.run_directory import RunDirectory
from training.run_lock import locked
with locked(RunDirectory(pathlib.Path(sys.argv[1]))):
    print("locked", flush=True)
    sys.stdin.read()
"""


def holder(path: Path) -> subprocess.Popen[bytes]:
    """A process that has locked the run."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"locked\n"
    return process


def test_run_of_another_process_is_refused_until_that_process_ends(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    for end in (subprocess.Popen.communicate, subprocess.Popen.kill):
        with holder(run.path) as process:
            with pytest.raises(RunInUse, match="another process prepares or trains"), locked(run):
                pass
            end(process)
            process.wait()
        with locked(run):
            assert run.path.is_dir()
        assert not run.path.exists()


def test_hop_of_the_same_command_locks_again_and_files_of_the_run_stay(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    with locked(run):
        with locked(run):
            run.log.touch()
        assert run.lock.exists()
    assert list(tmp_path.iterdir()) == [run.log]


@pytest.mark.parametrize("command", ["run", "prepare", "train"])
def test_command_on_a_run_of_another_process_changes_nothing(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with holder(tmp_path / "reverse") as process:
        assert main([command, "reverse", f"--runs={tmp_path}", "--device=cpu"]) == 2
        process.communicate()
    assert "another process prepares or trains" in capsys.readouterr().err
    assert not (tmp_path / "reverse").exists()
