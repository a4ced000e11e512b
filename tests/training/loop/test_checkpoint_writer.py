from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.raising import FULL, raiser
from tests.support.tiny_training import (
    events,
    prepared,
    tiny_recipe,
    with_budget,
    with_optimisation,
)
from training import checkpoint
from training.disk import CannotWrite
from training.loop.checkpoint_writer import CheckpointWriter
from training.loop.event_log import SilentLog
from training.loop.learner import Diverged, Learner
from training.loop.trainer import Trainer

CPU = torch.device("cpu")
RECIPE = with_optimisation(
    with_budget(tiny_recipe(), validate_every=8, save_every=3, keep_checkpoints=9),
    optimiser="muon",
    moving_average=0.5,
)


def test_steps_taken_during_a_write_do_not_change_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = prepared(tmp_path, RECIPE)
    write, learn, two_steps_later = torch.save, Learner.learn, threading.Event()

    def write_late(document: Any, file: Any) -> None:
        assert two_steps_later.wait(60)
        write(document, file)

    def learning(learner: Learner, portion: Any, step: int) -> Any:
        outcome = learn(learner, portion, step)
        if step == 5:
            assert not checkpoint.checkpoints(run.path)
            two_steps_later.set()
        return outcome

    monkeypatch.setattr(torch, "save", write_late)
    monkeypatch.setattr(Learner, "learn", learning)
    assert Trainer(RECIPE, run, CPU).train().step == 8
    expected = Trainer(RECIPE, run, CPU)
    for step in range(1, 4):
        expected._advance(expected.learner.learn(expected.loader.next(), step))
    checkpoint.save(expected.state_dict(), tmp_path / "expected.pt")
    found = checkpoint.path_of(run.path, 3)
    assert found.read_bytes() == (tmp_path / "expected.pt").read_bytes()


@pytest.mark.parametrize("save_every", [3, 8])
def test_full_disk_ends_the_run_during_it_or_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save_every: int
) -> None:
    recipe = with_budget(RECIPE, save_every=save_every)
    run = prepared(tmp_path, recipe)
    monkeypatch.setattr(torch, "save", raiser(FULL))
    with pytest.raises(CannotWrite, match="is full"):
        Trainer(recipe, run, CPU).train()
    assert save_every <= events(run, "train")[-1]["step"] <= 6 or save_every == 8
    assert not [path for path in run.path.iterdir() if path.name.startswith("checkpoint-")]


def test_error_of_the_run_is_raised_and_that_of_the_checkpoint_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(torch, "save", raiser(FULL))
    path = checkpoint.path_of(tmp_path, 1)
    with pytest.raises(Diverged), CheckpointWriter(SilentLog(), keep=1) as writer:
        writer.write({"step": 1}, path, frozenset())
        raise Diverged("the loss is nan")
    assert "is full" in caplog.text
