"""Averages a run's last checkpoints, or takes the best one, and loads the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from models.transformer.transformer import Transformer
from training import checkpoint
from training.loop.resuming import vocabulary_of
from training.run_directory import RunDirectory


def average(run: RunDirectory, count: int) -> list[int]:
    """Average the last ``count`` checkpoints; returns their steps. Raises ``CheckpointError``."""
    return _write(run, checkpoint.checkpoints(run.path)[-count:])


def take_best(run: RunDirectory) -> int:
    """Take the best-validated checkpoint instead of an average; returns its step.

    Raises ``CheckpointError`` if there is none.
    """
    found = checkpoint.checkpoints(run.path)
    if not found:
        raise checkpoint.CheckpointError(
            f"{run.path} has no checkpoint; run `python -m training train RECIPE` first"
        )
    step = checkpoint.load(found[-1])["progress"]["best_step"]
    best = checkpoint.path_of(run.path, step)
    if best not in found:
        raise checkpoint.CheckpointError(
            f"{run.path} has no checkpoint of the step that validated best, {step}; validate, and "
            "let every validation be a step that is saved (budget.save_every)"
        )
    return _write(run, [best])[0]


def interpolate(run: RunDirectory, initial: Mapping[str, Tensor], share: float) -> None:
    """Move a run's averaged weights towards those it started from, so that less is forgotten.

    ``share`` is that of the averaged weights, from 0 to 1 (WiSE-FT, Wortsman et al., 2022).
    """
    document = checkpoint.load(run.averaged)
    mixed = {
        name: torch.lerp(initial[name], weight, share)
        for name, weight in document["network"].items()
    }
    checkpoint.save({**document, "network": mixed}, run.averaged)


def _write(run: RunDirectory, paths: Sequence[Path]) -> list[int]:
    document = checkpoint.average(paths)
    last = checkpoint.checkpoints(run.path)[-1]
    checkpoint.save({**document, "last": last.name}, run.averaged)
    steps: list[int] = document["averaged"]
    return steps


def averaged_network(run: RunDirectory) -> Transformer:
    """The averaged network, in evaluation mode.

    Raises ``CheckpointError`` if there is none, if it is older than the last checkpoint, or if its
    vocabulary differs from the run's.
    """
    if not run.averaged.exists():
        raise checkpoint.CheckpointError(
            f"{run.averaged} does not exist; run `python -m training average RECIPE` first"
        )
    document = checkpoint.load(run.averaged)
    newer = checkpoint.checkpoints(run.path)
    if newer and newer[-1].name > document["last"]:
        raise checkpoint.CheckpointError(
            f"{run.averaged} is older than {newer[-1].name}; run `python -m training average "
            "RECIPE` again"
        )
    if document.get("vocabulary") != vocabulary_of(run):
        raise checkpoint.CheckpointError(
            f"{run.averaged} was trained with another vocabulary than the tokenizer in {run.path}; "
            "bring the tokenizer back that it was trained with, or train again"
        )
    return checkpoint.restore(document)
