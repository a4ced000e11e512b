"""Tracked runs, with recorders in place of wandb and mlflow, which tests do not install."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import torch

from tests.support.tiny_training import (
    events,
    prepared,
    run_on,
    tiny_recipe,
    with_budget,
)
from training.cli import main
from training.commands.train import TRACKERS
from training.loop import tracking
from training.loop.tracking import CannotTrack
from training.loop.trainer import Trainer
from training.recipes import RECIPES
from training.run_directory import RunDirectory

CPU = torch.device("cpu")
RECIPE = with_budget(tiny_recipe(), steps=4, validate_every=2)


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return prepared(tmp_path_factory.mktemp("runs"), RECIPE)


@pytest.fixture
def run(tmp_path: Path, tiny_run: RunDirectory) -> RunDirectory:
    return run_on(tiny_run, tmp_path / "tiny")


@pytest.fixture(params=TRACKERS)
def package(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    """A recorder as the module of a tracker."""
    recorder = MagicMock(__name__=request.param)
    recorder.__spec__ = ModuleSpec(request.param, None, origin="a test")
    recorder.start_run.return_value.info.run_id = "known to the server"
    recorder.log = recorder.init.return_value.log
    recorder.log_metrics.side_effect = lambda metrics, step, **_: recorder.log(
        {**metrics, "step": step}
    )
    monkeypatch.setitem(sys.modules, request.param, recorder)
    return recorder


def train(package: MagicMock, run: RunDirectory, steps: int = 4) -> None:
    recipe = with_budget(RECIPE, steps=steps)
    Trainer(recipe, run, CPU, track=package.__name__).train()


def test_every_tracker_is_an_option() -> None:
    assert {*TRACKERS} == tracking._TRACKERS.keys()


def test_resumed_run_continues_the_tracked_run_with_recipe_steps_and_validations(
    package: MagicMock, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RECIPES, "tiny", lambda: RECIPE)
    train(package, run)
    places = ["--runs", str(run.path.parent), "--steps", "6", "--device", "cpu"]
    assert main(["train", "tiny", "--track", package.__name__, *places]) == 0
    logged = [call.args[0] for call in package.log.call_args_list]
    for event, name in (("train", "loss"), ("valid", "bleu")):
        expected = [(line["step"], line[name]) for line in events(run, event)]
        key = f"{event}/{name}"
        assert [(each["step"], each[key]) for each in logged if key in each] == expected
    assert all(isinstance(value, int | float) for each in logged for value in each.values())
    if package.__name__ == "wandb":
        first, second = (call.kwargs for call in package.init.call_args_list)
        assert first["id"] == second["id"] and second["resume"] == "allow"
        assert first["config"] == RECIPE.to_dict()
        assert second["config"]["budget"]["steps"] == 6
        package.init.return_value.finish.assert_called_with(exit_code=0)
    else:
        first, second = (call.kwargs for call in package.start_run.call_args_list)
        assert (first, second) == ({"run_name": "tiny"}, {"run_id": "known to the server"})
        (parameters,) = (call.args[0] for call in package.log_params.call_args_list)
        assert parameters["budget.steps"] == 4
        assert parameters["data.train"] == RECIPE.to_dict()["data"]["train"]
        package.flush_async_logging.assert_called()
        package.end_run.assert_called_with("FINISHED")


def test_run_that_fails_is_marked_as_failed(
    package: MagicMock, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "_validate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(package, run)
    ended = package.end_run if package.__name__ == "mlflow" else package.init.return_value.finish
    ended.assert_called_once()
    assert ended.call_args.args == ("FAILED",) or ended.call_args.kwargs == {"exit_code": 1}


def test_training_goes_on_after_an_error_of_its_tracker(
    package: MagicMock, run: RunDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    package.log.side_effect = ConnectionError("no route to host")
    train(package, run)
    assert len(events(run, "train")) == 4
    (line,) = (line for line in caplog.messages if "--track" in line)
    assert f"--track {package.__name__}: no route to host" in line
    package.log.assert_called_once()


def test_tracker_that_cannot_begin_is_refused(package: MagicMock, run: RunDirectory) -> None:
    package.init.side_effect = package.start_run.side_effect = ValueError("log in\nfirst")
    with pytest.raises(CannotTrack, match=f"--track {package.__name__}: log in first"):
        train(package, run)
    assert not run.log.exists()


@pytest.mark.parametrize("name", TRACKERS)
@pytest.mark.parametrize("spec", [None, ModuleSpec("a directory", None)])
def test_tracker_whose_package_is_missing_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    spec: ModuleSpec | None,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: spec)
    with pytest.raises(SystemExit) as left:
        main(["run", "reverse", "--track", name])
    assert left.value.code == 2
    assert f"pip install 'dragoman-translate[{name}]'" in capsys.readouterr().err
