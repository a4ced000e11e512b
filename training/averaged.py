"""Averages a run's last or best checkpoints, and loads the result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from models.bundle.bundle import sha256_of
from models.transformer.transformer import Transformer
from training import checkpoint
from training.initial.start import initial_weights
from training.loop.progress import Progress
from training.loop.resuming import vocabulary_of
from training.recipe import Recipe
from training.run_directory import RunDirectory

Document = dict[str, Any]


def _unchanged(document: Document) -> Document:
    return document


def average(
    run: RunDirectory,
    count: int,
    finish: Callable[[Document], Document] = _unchanged,
    best: bool = False,
) -> list[int]:
    """Average the last ``count`` checkpoints, or those that validated ``best``; returns the steps.

    ``finish`` changes the averaged document before it is written. Raises ``CheckpointError``.
    """
    found = checkpoint.checkpoints(run.path)
    chosen = _best_of(found, count) if best else found[-count:]
    try:
        averaged = checkpoint.average(chosen)
        last = sha256_of(found[-1])
    except FileNotFoundError as error:
        raise checkpoint.CheckpointError(
            f"{error.filename} has been removed by the training of {run.path}; try again"
        ) from error
    document = finish(averaged)
    checkpoint.save({**document, "last": last}, run.averaged)
    steps: list[int] = document["averaged"]
    return steps


def _best_of(found: list[Path], count: int) -> list[Path]:
    """The checkpoints that validated best, oldest first; none if there is no checkpoint."""
    by_step = {checkpoint.step_of(path): path for path in found}
    steps: list[int] = []
    if found:
        steps = Progress.of(checkpoint.load(found[-1])).best_steps(count, by_step)
        if not steps:
            raise checkpoint.CheckpointError(
                f"no checkpoint in {found[-1].parent} was validated; let every validation be a "
                "step that is saved (budget.validate_every, budget.save_every)"
            )
    return [by_step[step] for step in sorted(steps)]


def interpolated(document: Document, recipe: Recipe, run: RunDirectory, bundles: Path) -> Document:
    """The averaged weights moved towards those of ``recipe.initial``, by ``recipe.strength``.

    ``bundles`` is the directory in which the recipe may name a bundle. Raises ``InvalidRecipe`` as
    ``initial_weights``.
    """
    if recipe.strength == 1:
        return document
    initial = initial_weights(recipe, run, checkpoint.restore(document), bundles)
    mixed = {
        name: torch.lerp(initial[name], weight, recipe.strength)
        for name, weight in document["network"].items()
    }
    return {**document, "network": mixed, "strength": recipe.strength}


def averaged_network(run: RunDirectory, strength: float | None = None) -> Transformer:
    """The averaged network, in evaluation mode.

    Raises ``CheckpointError`` if there is none, if it was made of other checkpoints than are
    there, or with another ``strength`` than the given one, or if its vocabulary differs from the
    run's.
    """
    if not run.averaged.exists():
        raise checkpoint.CheckpointError(
            f"{run.averaged} does not exist; run `python -m training average RECIPE` first"
        )
    document = checkpoint.load(run.averaged)
    found = checkpoint.checkpoints(run.path)
    # Another training may have written a checkpoint of the same name.
    if found and sha256_of(found[-1]) != document["last"]:
        raise checkpoint.CheckpointError(
            f"{run.averaged} was made before {found[-1].name}, or without it; run `python -m "
            "training average RECIPE` again"
        )
    made = document.get("strength", 1.0)
    if strength not in (None, made):
        raise checkpoint.CheckpointError(
            f"{run.averaged} was made with the strength {made}, and the recipe has {strength}; run "
            "`python -m training average RECIPE` again"
        )
    if document.get("vocabulary") != vocabulary_of(run):
        raise checkpoint.CheckpointError(
            f"{run.averaged} was trained with another vocabulary than the tokenizer in {run.path}; "
            "bring the tokenizer back that it was trained with, or train again"
        )
    return checkpoint.restore(document)
