"""Smallest training run: some hundred reversed sequences and a thin one-layer network.

As a program, ``python -m training`` with this recipe registered.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch

from models.transformer.config import TransformerConfig
from models.transformer.transformer import Transformer, build
from training.cli import main
from training.data.prepare import prepare
from training.recipe import (
    Budget,
    Corpus,
    Data,
    Network,
    Optimisation,
    Recipe,
    Vocabulary,
)
from training.recipes import RECIPES
from training.run_directory import RunDirectory

VOCABULARY_SIZE = 15
"""Ten digits, X, and the four special pieces."""

Choice = tuple[
    Literal["before", "after"],
    Literal["sinusoidal", "learned"],
    Literal["all", "decoder", "none"],
]
CHOICES: list[Choice] = [
    ("before", "sinusoidal", "all"),
    ("before", "sinusoidal", "decoder"),
    ("before", "learned", "none"),
    ("after", "sinusoidal", "none"),
    ("after", "learned", "all"),
    ("after", "learned", "decoder"),
]
"""A network's options except its sizes: every combination of two of them."""


def _generated(name: str, pairs: int) -> Corpus:
    return Corpus(name=name, licence="CC0-1.0", generator="reverse", pairs=pairs)


def tiny_recipe() -> Recipe:
    return Recipe(
        name="tiny",
        data=Data(
            source="x-digits",
            target="x-reversed",
            train=(_generated("train", 200),),
            valid=_generated("valid", 6),
            test=_generated("test", 5),
            max_length=12,
        ),
        vocabulary=Vocabulary(size=VOCABULARY_SIZE, kind="word"),
        network=Network(
            encoder_layers=1,
            decoder_layers=1,
            width=16,
            heads=2,
            feed_forward=32,
            attention_dropout=0.1,
            feed_forward_dropout=0.1,
            max_length=16,
        ),
        optimisation=Optimisation(
            tokens_per_batch=220,
            schedule="inverse_sqrt",
            peak_learning_rate=1e-2,
            warmup=10,
            precision="fp32",
        ),
        budget=Budget(steps=8, validate_every=4, keep_checkpoints=2),
        average=2,
        decoding={"beam_size": 2},
    )


def with_optimisation(recipe: Recipe, **changes: Any) -> Recipe:
    return replace(recipe, optimisation=replace(recipe.optimisation, **changes))


def with_network(recipe: Recipe, **changes: Any) -> Recipe:
    return replace(recipe, network=replace(recipe.network, **changes))


def without_dropout(recipe: Recipe) -> Recipe:
    names = ("residual", "attention", "feed_forward", "embedding")
    return with_network(recipe, **{f"{name}_dropout": 0.0 for name in names})


def with_budget(recipe: Recipe, **changes: Any) -> Recipe:
    return replace(recipe, budget=replace(recipe.budget, **changes))


def prepared(directory: Path, recipe: Recipe) -> RunDirectory:
    run = RunDirectory(directory / recipe.name)
    prepare(recipe, run, directory)
    return run


def tiny_config(**changes: Any) -> TransformerConfig:
    sizes = {
        "source_vocabulary": VOCABULARY_SIZE,
        "target_vocabulary": VOCABULARY_SIZE,
        "encoder_layers": 2,
        "decoder_layers": 1,
        "width": 16,
        "heads": 2,
        "feed_forward": 24,
        "max_length": 16,
    }
    return TransformerConfig(**{**sizes, **changes})


def tiny_network(seed: int = 1, **changes: Any) -> Transformer:
    """A network in evaluation mode with every weight random, biases and norms included."""
    network = build(tiny_config(**changes), seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return network.eval()


def run_on(data: RunDirectory, path: Path) -> RunDirectory:
    """A new run directory with the prepared data of another."""
    path.mkdir(exist_ok=True)
    for file in data.path.iterdir():
        (path / file.name).symlink_to(file)
    return RunDirectory(path)


def logged(run: RunDirectory) -> list[dict[str, Any]]:
    """Every event of a run's log."""
    return [json.loads(line) for line in run.log.read_text(encoding="utf-8").splitlines()]


def events(run: RunDirectory, event: str) -> list[dict[str, Any]]:
    return [line for line in logged(run) if line["event"] == event]


if __name__ == "__main__":
    RECIPES["tiny"] = tiny_recipe
    sys.exit(main())
