"""``recipes`` command: lists the built-in recipes."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from training.commands import Commands

if TYPE_CHECKING:
    from training.recipe import Recipe


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "recipes",
        help="list the recipes",
        description="List the recipes: name, languages, parameters, steps, effort.",
    )
    parser.set_defaults(perform=perform)


def perform(options: argparse.Namespace) -> None:
    from training.recipes import RECIPES

    recipes = [make() for make in RECIPES.values()]
    width = max(len(recipe.name) for recipe in recipes)
    for recipe in recipes:
        print(f"{recipe.name:{width}}  {summary(recipe)}".rstrip())


def summary(recipe: Recipe) -> str:
    """Languages, number of parameters, steps and effort, in columns."""
    arrow = "↔" if recipe.data.bidirectional else "→"
    pairs = dict.fromkeys(map(recipe.data.languages, recipe.data.train))
    languages = ", ".join(arrow.join(pair) for pair in pairs)
    return (
        f"{languages:19}  {parameters(recipe) / 1e6:5.1f}M  {recipe.budget.steps:7,} steps"
        f"  {recipe.effort}"
    )


def parameters(recipe: Recipe) -> int:
    """The parameter count of the recipe's network, if the text fills the vocabulary."""
    network, pieces = recipe.network, recipe.vocabulary.size
    width, inner = network.width, network.feed_forward
    norm = 2 * width
    attention = 4 * (width * width + width) + norm
    feed_forward = 2 * width * inner + inner + width + norm
    layers = network.encoder_layers * (attention + feed_forward)
    recurrence = 2 * width * width + width + norm
    first = recurrence if network.decoder == "ssru" else attention
    layers += network.decoder_layers * (first + attention + feed_forward)
    embeddings = {"all": 1, "decoder": 2, "none": 3}[network.tying] * pieces * width
    if network.positions == "learned":
        embeddings += 2 * network.max_length * width
    norms = 2 * norm if network.norm == "before" else 0
    return layers + embeddings + norms + pieces * network.output_bias
