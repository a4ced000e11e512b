"""``evaluate`` command: scores the averaged network on the recipe's test set."""

from __future__ import annotations

import argparse

from training.averaged import averaged_network
from training.commands import Commands
from training.commands.options import recipe_of, recipe_parser, run_of
from training.evaluation.hop import evaluate


def add_to(commands: Commands) -> None:
    parser = recipe_parser(commands, "evaluate", "translate the test set and score it")
    parser.set_defaults(perform=perform)


def perform(options: argparse.Namespace) -> None:
    recipe = recipe_of(options)
    run = run_of(options, recipe)
    evaluation = evaluate(recipe, run, averaged_network(run), options.data, options.device)
    print(evaluation.to_json(), end="")
