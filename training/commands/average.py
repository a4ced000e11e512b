"""``average`` command: averages the last checkpoints into the weights to export."""

from __future__ import annotations

import argparse

from training.commands.options import recipe_of, run_of

HELP = "average the weights of the last checkpoints"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--best",
        action="store_true",
        help="no average: take the checkpoint that validated best, where patience ran out since",
    )


def perform(options: argparse.Namespace) -> None:
    from training.averaged import average, take_best

    recipe = recipe_of(options)
    run = run_of(options, recipe)
    if options.best:
        print(f"took step {take_best(run)}, which validated best")
    else:
        print(f"averaged steps {', '.join(map(str, average(run, recipe.average)))}")
