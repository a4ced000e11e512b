"""``average``: the last checkpoints to the weights that are exported."""

from __future__ import annotations

import argparse

from training import checkpoint
from training.commands import Commands
from training.commands.options import recipe_of, recipe_parser, run_of


def add_to(commands: Commands) -> None:
    parser = recipe_parser(commands, "average", "average the weights of the last checkpoints")
    parser.set_defaults(perform=perform)


def perform(options: argparse.Namespace) -> None:
    recipe = recipe_of(options)
    run = run_of(options, recipe)
    document = checkpoint.average(checkpoint.checkpoints(run.path)[-recipe.average :])
    checkpoint.save(document, run.averaged)
    print(f"averaged steps {', '.join(map(str, document['averaged']))}")
