"""Training by two Gloo processes is equivalent to training by one."""

from __future__ import annotations

import os
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.programs import free_port, python
from tests.support.tiny_training import (
    events,
    run_on,
    tiny_recipe,
    with_budget,
    with_optimisation,
    without_dropout,
)
from training import checkpoint
from training.loop.distributed import join, leave
from training.loop.trainer import Trainer
from training.recipe import Recipe
from training.run_directory import RunDirectory

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
PATIENCE_SECONDS = 300.0
RECIPE = with_budget(tiny_recipe(), steps=6, validate_every=3, keep_checkpoints=9)


def train(recipe: Recipe, path: Path, rank: int, port: int) -> None:
    torch.set_num_threads(1)
    os.environ |= {
        "RANK": str(rank),
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    world = join(CPU)
    try:
        Trainer(recipe, RunDirectory(path), CPU, world=world).train()
    finally:
        leave(world)


def train_by_two(context: ForkServerContext, recipe: Recipe, run: RunDirectory) -> None:
    port = free_port()
    processes = [
        context.Process(target=train, args=(recipe, run.path, rank, port)) for rank in range(2)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(PATIENCE_SECONDS)
    assert [process.exitcode for process in processes] == [0, 0]


def last(run: RunDirectory) -> dict[str, Any]:
    return checkpoint.load(checkpoint.checkpoints(run.path)[-1])


def assert_alike(one: RunDirectory, other: RunDirectory) -> None:
    """Equal up to rounding, except key biases: softmax ignores them; their gradients are noise."""
    actual, reference = last(one), last(other)
    for part in ("progress", "cursor", "vocabulary"):
        assert actual[part] == reference[part]
    for name, weight in actual["network"].items():
        if not name.endswith("key.bias"):
            torch.testing.assert_close(weight, reference["network"][name], atol=2e-5, rtol=1e-3)
    for line, expected in zip(events(one, "train"), events(other, "train"), strict=True):
        assert line.pop("event") == expected.pop("event")
        assert line == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("accumulate", [2, 1, 3])
def test_two_processes_equal_one(
    context: ForkServerContext, data: RunDirectory, tmp_path: Path, accumulate: int
) -> None:
    """The processes get whole batches if their number is even, otherwise half of each."""
    recipe = with_optimisation(without_dropout(RECIPE), accumulate=accumulate)
    together, alone = run_on(data, tmp_path / "together"), run_on(data, tmp_path / "alone")
    train_by_two(context, recipe, together)
    Trainer(recipe, alone, CPU).train()
    assert_alike(together, alone)
    assert [line["step"] for line in events(together, "valid")] == [3, 6]
    for line, expected in zip(events(together, "valid"), events(alone, "valid"), strict=True):
        assert line["loss"] == pytest.approx(expected["loss"], rel=1e-3)


def test_two_processes_resume_bit_for_bit_with_dropout(
    context: ForkServerContext, data: RunDirectory, tmp_path: Path
) -> None:
    unbroken, broken = run_on(data, tmp_path / "unbroken"), run_on(data, tmp_path / "broken")
    train_by_two(context, RECIPE, unbroken)
    train_by_two(context, with_budget(RECIPE, steps=3), broken)
    train_by_two(context, RECIPE, broken)
    actual, reference = last(broken), last(unbroken)
    for name, weight in actual["network"].items():
        assert torch.equal(weight, reference["network"][name])
    assert events(broken, "train") == events(unbroken, "train")
    # Each process has its own dropout, and checkpoints hold the random state of both.
    states = [state["torch"] for state in actual["random"]]
    assert all(map(torch.equal, states, (state["torch"] for state in reference["random"])))
    assert len(states) == 2
    assert not torch.equal(*states)
    # Resuming with another number of processes keeps the data order, but not the dropout.
    progress = Trainer(with_budget(RECIPE, steps=7), broken, CPU).train()
    assert progress.step == 7
    assert len(last(broken)["random"]) == 1


def test_torchrun_trains_and_one_process_prints(data: RunDirectory, tmp_path: Path) -> None:
    run = run_on(data, tmp_path / "tiny")
    launcher = f"torch.distributed.run --nproc-per-node 2 --master-port {free_port()}"
    program = "tests.support.tiny_training train tiny --steps 4 --threads 1 --device cpu --runs"
    arguments = ("-m", *launcher.split(), "-m", *program.split(), str(tmp_path))
    (spoken,) = python(*arguments, timeout=PATIENCE_SECONDS).splitlines()
    assert "for 4 steps" in spoken
    assert len(last(run)["random"]) == 2
