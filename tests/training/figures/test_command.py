"""Tests of ``python -m training figures``: files written, figures skipped, errors."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.programs import python
from tests.support.tiny_training import tiny_config
from training.cli import main
from training.figures import registry
from training.figures.registry import FIGURES
from training.run_directory import RunDirectory


@pytest.fixture(autouse=True)
def a_small_network_for_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "DEEP", tiny_config(max_length=32))


def test_every_figure_is_drawn_from_one_run(
    tiny_run: RunDirectory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = ["--run", str(tiny_run.path), "--toy", str(tiny_run.path), "-o", str(tmp_path)]
    assert main(["figures", "--format", "svg", *places]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in said] == [
        f"wrote {tmp_path / name}.svg" for name in FIGURES
    ]
    for name in FIGURES:
        assert ElementTree.parse(tmp_path / f"{name}.svg").getroot().tag.endswith("svg")


def test_a_second_run_writes_the_same_bytes(tiny_run: RunDirectory, tmp_path: Path) -> None:
    command = ["figures", "attention-cross", "--sentence", "1 2 3"]
    command += ["--run", str(tiny_run.path), "-o"]
    for format in ("svg", "png"):
        assert main([*command, str(tmp_path / "first"), "--format", format]) == 0
    # A second process, in which sets iterate in another order.
    program = "import sys; from training.cli import main\n"
    program += "for format in ('svg', 'png'): assert main([*sys.argv[1:], '--format', format]) == 0"
    environment = {**os.environ, "PYTHONHASHSEED": "1", "OMP_NUM_THREADS": "1"}
    python("-c", program, *command, str(tmp_path / "second"), env=environment)
    first = {path.name: path.read_bytes() for path in (tmp_path / "first").iterdir()}
    assert len(first) == 2
    assert first == {path.name: path.read_bytes() for path in (tmp_path / "second").iterdir()}


def test_figures_without_input_are_skipped_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    some = ("masks", "reversal", "attention-cross", "learning-curves", "lengths", "bleu-by-length")
    monkeypatch.setattr(registry, "FIGURES", {name: FIGURES[name] for name in some})
    missing, toy, output = (str(tmp_path / name) for name in ("runs/absent", "runs/toy", "out"))
    assert main(["figures", "--run", missing, "--toy", toy, "-o", output]) == 0
    drawn, *left_out = capsys.readouterr().out.splitlines()
    assert drawn.startswith("wrote ")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["masks.png"]
    for name, line in zip(some[1:], left_out, strict=True):
        assert line.startswith(f"left out {name}: ")
        run = "toy" if name == "reversal" else "absent"
        assert f"run `python -m training run {run}` first" in line


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["mask"], "'mask'"),
        (["masks", "a", "b"], "'a', 'b'"),
        (["masks", *(f"--run={n}" for n in range(8))], "compare 7"),
        (["lengths", "--run", "absent"], "training run absent"),
        (["attention-cross", "--layer", "2"], "number 2"),
        (["attention-cross", "--into", "fr"], "'fr'"),
        (["attention-cross", "--sentence", "1 " * 16], "15"),
        # The run has been neither trained nor evaluated.
        (["attention-cross", "--run", "half"], "training average"),
        (["learning-curves", "--run", "half"], "training train"),
        (["lengths", "--run", "half"], "training prepare"),
        (["bleu-by-length", "--run", "half"], "training evaluate half"),
    ],
)
def test_invalid_requests_are_refused_in_one_line_that_names_the_next_command(
    tiny_run: RunDirectory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    named: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    half = RunDirectory(Path("half"))
    half.path.mkdir()
    half.recipe.write_bytes(tiny_run.recipe.read_bytes())
    run = [] if "--run" in " ".join(arguments) else ["--run", str(tiny_run.path)]
    assert main(["figures", *arguments, *run, "-o", "out"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("training: ") and error.count("\n") == 1
    assert named in error
    assert not Path("out").exists()


def test_figures_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figures", "--list"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in said] == list(FIGURES)
