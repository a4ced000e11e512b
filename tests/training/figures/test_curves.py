"""Tests of learning curves read from logs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from training.figures.curves import Average, History, binned, learning_curves
from training.figures.material import Material
from training.refusal import Refusal
from training.run_directory import RunDirectory


def write_log(path: Path, steps: int, scale: float, **valid: float) -> Path:
    lines = [{"event": "train", "step": s, "loss": scale / s} for s in range(1, steps + 1)]
    lines.append({"event": "valid", "step": steps, **valid})
    lines.append({"event": "speed", "step": steps, "tokens_per_second": 5.0, "device": "cpu"})
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


def test_every_run_has_its_curves(tmp_path: Path) -> None:
    average = Average((20, 25), 40.0, "a/test")
    histories = [
        History.read(write_log(tmp_path / "a", 30, 2.0, bleu=30.0), "a", average),
        History.read(write_log(tmp_path / "b", 20, 3.0, bleu=20.0, loss=1.0), "b"),
    ]
    panels = {axes.get_title(loc="left"): axes for axes in learning_curves(histories).axes}
    assert [title.split(",")[0] for title in panels] == [
        "Loss in training",
        "Loss on the validation set",
        "BLEU on the validation set",
        "Speed",
    ]
    losses, valid_losses, bleus, speeds = (axes.lines for axes in panels.values())
    assert [line.get_label() for line in losses] == ["a", "b"]
    np.testing.assert_array_equal(losses[1].get_xdata(), np.arange(1, 21))
    np.testing.assert_allclose(np.asarray(losses[1].get_ydata()), 3.0 / np.arange(1, 21))
    assert [line.get_label() for line in valid_losses] == ["b"]
    assert len(speeds) == 2
    (mark,) = (line for line in bleus if str(line.get_label()).startswith("averaged"))
    assert mark.get_label() == "averaged, on test: 40.0"
    assert list(np.asarray(mark.get_xdata())) == [20, 25]


def test_thousands_of_steps_are_drawn_as_means() -> None:
    steps, values = binned((np.arange(1000.0), np.arange(1000.0) ** 2), 10)
    assert len(steps) == len(values) == 10
    assert steps[0] == np.arange(100).mean() and values[0] == (np.arange(100.0) ** 2).mean()


def test_log_of_an_active_run_is_read_to_its_last_complete_line(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log", 3, 1.0)
    with path.open("a") as file:
        file.write('{"event": "train", "st')
    steps, _ = History.read(path, "a").curves["train", "loss"]
    assert steps.tolist() == [1, 2, 3]


def test_an_empty_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("")
    with pytest.raises(Refusal, match="tells of no step yet"):
        History.read(tmp_path / "log", "a")


def test_runs_with_equal_names_are_labelled_by_their_directories() -> None:
    runs = [RunDirectory(Path(path)) for path in ("a/deep", "b/deep", "a/flat")]
    material = Material(tuple(runs), toy=runs[2], data=Path("data"))
    assert [material.name_of(run) for run in runs] == ["a/deep", "b/deep", "flat"]
