"""``recipes`` command: lists the built-in recipes."""

from __future__ import annotations

import argparse

import torch

from models.transformer.transformer import Transformer
from training.commands import Commands
from training.recipe import Recipe
from training.recipes import RECIPES


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "recipes",
        help="list the recipes",
        description="List the recipes: name, languages, network, parameters, corpora, effort.",
    )
    parser.set_defaults(perform=perform)


def perform(options: argparse.Namespace) -> None:
    recipes = [make() for make in RECIPES.values()]
    width = max(len(recipe.name) for recipe in recipes)
    for recipe in recipes:
        print(f"{recipe.name:{width}}  {summary(recipe)}")


def summary(recipe: Recipe) -> str:
    """One line: languages, network, parameters, corpora, effort."""
    data, network = recipe.data, recipe.network
    arrow = "↔" if data.bidirectional else "→"
    places = dict.fromkeys(corpus.name.partition("/")[0] for corpus in data.train)
    parts = [
        f"{data.source}{arrow}{data.target}",
        f"{network.encoder_layers}+{network.decoder_layers} layers "
        f"{network.width}/{network.feed_forward}/{network.heads}",
        f"{parameters(recipe) / 1e6:.1f}M parameters",
        f"{recipe.budget.steps:,} steps",
        ", ".join(places),
        recipe.effort,
    ]
    return "; ".join(filter(None, parts))


def parameters(recipe: Recipe) -> int:
    """The parameter count of the recipe's network, if the text fills the vocabulary."""
    # On the meta device, because counting needs no memory for weights.
    with torch.device("meta"):
        return Transformer(recipe.network.config(recipe.vocabulary.size)).num_parameters
