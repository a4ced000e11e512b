from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from training.cli import main
from training.run_directory import RunDirectory
from training.run_lock import RunInUse, locked

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
