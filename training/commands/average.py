"""``average`` command: averages the last or best checkpoints into the weights to export."""

from __future__ import annotations

import argparse

from training.commands.options import Job

HELP = "average the weights of the last or best checkpoints"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--best",
        action="store_true",
        help="take the one checkpoint that validated best, whatever the recipe averages",
    )


def perform(job: Job) -> None:
    from training.averaged import Document, average, interpolated

    recipe = job.recipe

    def finish(document: Document) -> Document:
        return interpolated(document, recipe, job.run, job.options.bundles)

    towards = "" if recipe.strength == 1 else f"; strength {recipe.strength}: the remainder initial"
    single = job.options.best
    best = single or recipe.average_of == "best"
    steps = average(job.run, 1 if single else recipe.average, finish, best)
    done = "took step" if single else "averaged steps"
    validated = ", which validated best" if best else ""
    print(f"{done} {', '.join(map(str, steps))}{validated}{towards}")
