"""``show`` command: prints a recipe as JSON, as the start of a recipe file."""

from __future__ import annotations

import argparse

from training.commands import Commands
from training.commands.options import add_recipe, recipe_of


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "show",
        help="print a recipe as JSON",
        description="Print a recipe as JSON; every command takes such a file for a recipe.",
    )
    add_recipe(parser)
    parser.set_defaults(perform=perform)


def perform(options: argparse.Namespace) -> None:
    print(recipe_of(options).to_json(), end="")
