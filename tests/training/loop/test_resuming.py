"""A run that is killed at any moment and resumed equals an unbroken run, bit for bit.

Every run is a process of its own, killed by SIGKILL, which it cannot handle. The processes are
forked from a server that has imported torch once.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch

from tests.support.tiny_training import logged, run_on, tiny_recipe, with_budget, with_optimisation
from training import checkpoint
from training.loop.event_log import RunLog
from training.loop.trainer import Trainer
from training.recipe import Augmentation, Recipe
from training.run_directory import RunDirectory

pytestmark = pytest.mark.slow

STEPS = 60
KILLS = 12
PATIENCE_SECONDS = 300.0
"""Longer than any run takes on a busy machine."""

RECIPE = with_optimisation(
    with_budget(tiny_recipe(), steps=STEPS, validate_every=3, save_every=2, keep_checkpoints=2),
    accumulate=2,
    optimiser="muon",
    schedule="wsd",
    peak_learning_rate=2e-3,
    decay=20,
)
RECIPE = replace(
    RECIPE, data=replace(RECIPE.data, augmentation=Augmentation(joined=0.2, numbers=0.2))
)
"""Dropout, accumulation, augmented text, Muon, a decay, more than one epoch, prefetching, and a
checkpoint every few milliseconds, also between validations."""


def train(recipe: Recipe, path: Path) -> None:
    torch.set_num_threads(1)
    Trainer(recipe, RunDirectory(path), torch.device("cpu")).train()


def die(*_: object, **__: object) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("survived SIGKILL")


def on_call(number: int, then: Callable[..., None], otherwise: Callable[..., None]) -> Any:
    """A function that calls ``then`` on its ``number``-th call and ``otherwise`` on other calls."""
    calls = 0

    def counting(*arguments: Any, **named: Any) -> None:
        nonlocal calls
        calls += 1
        (then if calls == number else otherwise)(*arguments, **named)

    return counting


def train_until_half_a_checkpoint_is_written(recipe: Recipe, path: Path) -> None:
    def write_half(document: object, file: Any) -> None:
        file.write(b"PK")
        file.flush()
        die()

    torch.save = on_call(3, write_half, torch.save)
    train(recipe, path)


def train_until_a_checkpoint_is_written_and_none_is_pruned(recipe: Recipe, path: Path) -> None:
    checkpoint.prune = on_call(4, die, checkpoint.prune)
    train(recipe, path)


def train_until_half_a_line_is_written(recipe: Recipe, path: Path) -> None:
    def write_half(log: RunLog, *_: object, **__: object) -> None:
        log._file.write(b'{"event": "train", "st')
        die()

    write = RunLog.write
    # A plain function, so that it is bound to the log as a method.
    counting = on_call(11, write_half, write)
    RunLog.write = lambda *arguments, **named: counting(*arguments, **named)  # type: ignore[method-assign]
    train(recipe, path)


@pytest.fixture
def new_run(tmp_path: Path, data: RunDirectory) -> RunDirectory:
    return run_on(data, tmp_path / "broken")


@pytest.fixture(scope="module")
def unbroken(
    context: ForkServerContext, data: RunDirectory, tmp_path_factory: pytest.TempPathFactory
) -> RunDirectory:
    run = run_on(data, tmp_path_factory.mktemp("unbroken") / "run")
    finish(context, run)
    return run


def started(
    context: ForkServerContext,
    run: RunDirectory,
    training: Callable[[Recipe, Path], None] = train,
) -> ForkServerProcess:
    process = context.Process(target=training, args=(RECIPE, run.path))
    process.start()
    return process


def finish(context: ForkServerContext, run: RunDirectory) -> None:
    process = started(context, run)
    process.join(PATIENCE_SECONDS)
    assert process.exitcode == 0


def moments(process: ForkServerProcess) -> Iterator[None]:
    """Yields as often as possible until the process ends."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while process.is_alive():
        assert time.monotonic() < deadline, "the run hangs"
        yield
        time.sleep(0.0002)


def written(run: RunDirectory) -> int:
    return run.log.stat().st_size if run.log.exists() else 0


def saving(run: RunDirectory) -> bool:
    return any(name.endswith(".partial") for name in os.listdir(run.path))


def killed_after_some_writing(
    context: ForkServerContext, run: RunDirectory, rng: random.Random
) -> bool:
    """Start, let the log grow, then kill at once or while a checkpoint is written."""
    process = started(context, run)
    enough = 0
    grown = rng.randint(1, 1200)
    while_saving = rng.random() < 0.5
    for _ in moments(process):
        # Resuming rewinds the log, so it shrinks first.
        enough = enough or written(run) + grown
        if written(run) >= enough and (saving(run) or not while_saving):
            process.kill()
            break
    process.join(PATIENCE_SECONDS)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def assert_equal_bit_for_bit(run: RunDirectory, unbroken: RunDirectory) -> None:
    assert lines_of(run) == lines_of(unbroken)
    actual, reference = checkpoint.checkpoints(run.path), checkpoint.checkpoints(unbroken.path)
    assert [path.name for path in actual] == [path.name for path in reference]
    for one, other in zip(actual, reference, strict=True):
        assert flattened(checkpoint.load(one)) == flattened(checkpoint.load(other))


def lines_of(run: RunDirectory) -> list[dict[str, Any]]:
    """Logged events other than speed, which differs between runs."""
    return [line for line in logged(run) if line["event"] != "speed"]


def flattened(document: Any, name: str = "") -> dict[str, object]:
    if isinstance(document, dict):
        parts = [flattened(value, f"{name}.{key}") for key, value in document.items()]
        return {key: value for part in parts for key, value in part.items()}
    if isinstance(document, list | tuple):
        return flattened(dict(enumerate(document)), name)
    if isinstance(document, torch.Tensor):
        return {name: (document.dtype, tuple(document.shape), document.numpy().tobytes())}
    return {name: document}


def test_unbroken_run_logs_every_step_and_passes_two_epochs(unbroken: RunDirectory) -> None:
    lines = lines_of(unbroken)
    steps = [line["step"] for line in lines if line["event"] == "train"]
    assert steps == list(range(1, STEPS + 1))
    assert sum(line["event"] == "valid" for line in lines) == STEPS // 3
    cursor = checkpoint.load(checkpoint.checkpoints(unbroken.path)[-1])["cursor"]
    assert cursor["epoch"] >= 2


def test_run_killed_repeatedly_equals_an_unbroken_one(
    context: ForkServerContext, new_run: RunDirectory, unbroken: RunDirectory
) -> None:
    rng = random.Random(1)
    killed = 0
    for _ in range(KILLS):
        if not killed_after_some_writing(context, new_run, rng):
            break
        killed += 1
    finish(context, new_run)
    assert killed >= 3
    assert_equal_bit_for_bit(new_run, unbroken)


@pytest.mark.parametrize(
    "training",
    [
        train_until_half_a_checkpoint_is_written,
        train_until_a_checkpoint_is_written_and_none_is_pruned,
        train_until_half_a_line_is_written,
    ],
)
def test_run_killed_during_a_write_equals_an_unbroken_one(
    context: ForkServerContext,
    new_run: RunDirectory,
    unbroken: RunDirectory,
    training: Callable[[Recipe, Path], None],
) -> None:
    process = started(context, new_run, training)
    process.join(PATIENCE_SECONDS)
    assert process.exitcode == -signal.SIGKILL
    assert 0 < len(new_run.log.read_text(encoding="utf-8").splitlines()) < STEPS
    finish(context, new_run)
    assert_equal_bit_for_bit(new_run, unbroken)
