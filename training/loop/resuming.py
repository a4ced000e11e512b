"""Checks that a checkpoint fits the run that resumes from it; saves and restores random state."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch

from models.bundle.bundle import SOURCE_TOKENIZER, TARGET_TOKENIZER, TOKENIZER, sha256_of
from models.transformer.config import TransformerConfig
from models.transformer.transformer import Transformer
from training import checkpoint
from training.checkpoint import CheckpointError
from training.data.shards import DamagedShards
from training.loop.execution import Execution
from training.loop.precision import precision_for
from training.loop.schedule import stable_steps
from training.recipe import Data, Recipe
from training.run_directory import RunDirectory

logger = logging.getLogger(__name__)

_DECIDING = ("data", "vocabulary", "network", "optimisation", "seed", "initial")
"""The parts of a recipe that determine what a step computes."""


def with_precision(
    recipe: Recipe, run: RunDirectory, config: TransformerConfig, device: torch.device
) -> Recipe:
    """The recipe with fp32 or bf16 in place of ``auto``: what the run began with, if it did.

    A resumed run computes the same bits, also where a second timing would choose differently.
    """
    if recipe.optimisation.precision != "auto":
        return recipe
    begun = checkpoint.checkpoints(run.path)
    optimisation = recipe.optimisation
    if begun:
        saved = Recipe.from_dict(checkpoint.load(begun[-1])["recipe"]).optimisation
        optimisation = replace(optimisation, precision=saved.precision)
    chosen = precision_for(optimisation, config, device)
    logger.info(
        "products in %s, %s", chosen, "as the run began" if begun else "the faster on this device"
    )
    return replace(recipe, optimisation=replace(optimisation, precision=chosen))


def vocabulary_of(run: RunDirectory) -> dict[str, str]:
    """The SHA-256 of each of a run's tokenizers, by file name."""
    paths = (run.path / name for name in (TOKENIZER, SOURCE_TOKENIZER, TARGET_TOKENIZER))
    return {path.name: sha256_of(path) for path in paths if path.exists()}


def trained_on(run: RunDirectory) -> dict[str, Any]:
    """The SHA-256 hashes of a prepared run's tokenizers and token shards, and the version of the
    bundle that it starts from, if it does."""
    try:
        report = json.loads(run.report.read_text(encoding="utf-8"))
        initial = report.get("initial")
        return {
            "vocabulary": vocabulary_of(run),
            "shards": report["shards"],
            "initial": initial and [initial["bundle"], initial["version"]],
        }
    except (FileNotFoundError, ValueError, KeyError) as error:
        raise CheckpointError(
            f"{run.report} does not say what {run.path} was prepared with; it is damaged, or of "
            f"another version of this program: remove {run.path} to begin again"
        ) from error


def require_whole(run: RunDirectory) -> None:
    """Raises ``DamagedShards`` if the tokens to train on are not those that were prepared."""
    for name, digest in trained_on(run)["shards"].items():
        path = run.shards("train") / name
        if sha256_of(path) != digest:
            raise DamagedShards(path)


def require_same_run(
    document: dict[str, Any],
    recipe: Recipe,
    run: RunDirectory,
    network: Transformer,
    execution: Execution,
) -> None:
    """Check that a checkpoint is of this run; only the budget and the test sets may differ.

    Raises ``CheckpointError`` naming the difference.
    """
    if not {"vocabulary", "shards"} <= document.keys():
        raise CheckpointError(
            f"the checkpoint in {run.path} was written by another version of this program, and "
            "does not say what it was trained on; delete the checkpoints to train again"
        )
    if TransformerConfig(**document["config"]) != network.config:
        raise CheckpointError(
            f"the checkpoint in {run.path} is of another network than the recipe "
            f"{recipe.name!r} describes; choose another run directory"
        )
    saved = Recipe.from_dict(document["recipe"])
    before, after = _without_decay(saved), _without_decay(recipe)
    found = trained_on(run)
    changed = [name for name in _DECIDING if _part(before, name) != _part(after, name)]
    if document.get("initial", found["initial"]) != found["initial"]:
        changed.append("version of initial")
    if changed:
        raise CheckpointError(
            f"the checkpoint in {run.path} was trained with another "
            f"{' and another '.join(changed)} than the recipe {recipe.name!r} has; "
            "choose another directory with --runs, or delete the checkpoints"
        )
    if document["vocabulary"] != found["vocabulary"]:
        raise CheckpointError(
            f"the checkpoint in {run.path} was trained with another vocabulary than the tokenizer "
            "there has: the recipe was prepared again, and ids mean other pieces; delete the "
            "checkpoints, or bring the tokenizer back that they were trained with"
        )
    if document["shards"] != found["shards"]:
        raise CheckpointError(
            f"the checkpoint in {run.path} was trained on other text than lies there: the recipe "
            "was prepared again, and a place in the data means another; delete the checkpoints, or "
            "bring the text back that they were trained on"
        )
    if document["length_multiple"] != execution.length_multiple:
        raise CheckpointError(
            f"the checkpoint in {run.path} was trained on lengths rounded up to multiples of "
            f"{document['length_multiple']}, which decides how batches are composed; go on with "
            f"--length-multiple {document['length_multiple']}"
        )


def checkpoint_to_continue(paths: Sequence[Path], recipe: Recipe) -> Path:
    """The last of ``paths`` (oldest first) that ``recipe`` can resume from.

    If a ``wsd`` run gets another budget or decay, that is the last one from before its decay, in
    which the learning rate falls. Raises ``CheckpointError`` if there is none, or if the decay of
    ``recipe`` begins before it.
    """
    last = checkpoint.load(paths[-1])
    saved = Recipe.from_dict(last["recipe"])
    decays = saved.optimisation.decay, recipe.optimisation.decay
    # Other schedules are compared by ``require_same_run``.
    if not all(decays) or _decay_of(saved) == _decay_of(recipe):
        return paths[-1]
    stable = stable_steps(saved)
    earlier = [path for path in paths if checkpoint.step_of(path) <= stable]
    if not earlier:
        raise CheckpointError(
            f"{paths[-1]} is in the decay of a run of {saved.budget.steps} steps, and no "
            f"checkpoint from before step {stable} is left to go on to {recipe.budget.steps} "
            "steps; name the run as the `initial` of another recipe instead"
        )
    step = checkpoint.step_of(earlier[-1])
    if step > stable_steps(recipe):
        raise CheckpointError(
            f"{paths[-1].parent} has been trained for {last['step']} steps and can go on from step "
            f"{step}, but {recipe.budget.steps} steps with optimisation.decay={decays[1]} decay "
            f"from step {stable_steps(recipe)} on; give at least {step + decays[1]} steps, or "
            "choose another directory with --runs"
        )
    return earlier[-1]


def _decay_of(recipe: Recipe) -> tuple[int | float | None, ...]:
    """Everything that determines what the decay computes."""
    of = recipe.optimisation
    return recipe.budget.steps, of.decay, of.decay_accumulate, of.decay_label_smoothing


def _without_decay(recipe: Recipe) -> Recipe:
    """The recipe without what may change during a run: a decay, if any, of minimal length, and no
    moving average, which changes no step."""
    optimisation = replace(
        recipe.optimisation,
        decay=min(1, recipe.optimisation.decay),
        decay_accumulate=None,
        decay_label_smoothing=None,
        moving_average=0.0,
    )
    return replace(recipe, optimisation=optimisation)


def _part(recipe: Recipe, name: str) -> object:
    part = getattr(recipe, name)
    if name == "initial":
        # A bundle may have moved.
        return part and Path(part).name
    if not isinstance(part, Data):
        return part
    # Test sets are only searched for in the text to train on: they change no shard.
    names = (each.name for each in fields(part) if each.name not in ("test", "more_test"))
    return [getattr(part, each) for each in names]


def random_state(device: torch.device) -> dict[str, Any]:
    """Random state of this process, which dropout draws from."""
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
    }


def restore_random_state(state: dict[str, Any], device: torch.device) -> None:
    torch.set_rng_state(state["torch"])
    if device.type == "cuda" and state["cuda"] is not None:
        torch.cuda.set_rng_state(state["cuda"], device)
