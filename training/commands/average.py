"""``average`` command: averages the last checkpoints into the weights to export."""

from __future__ import annotations

import argparse

from training.commands.options import Job

HELP = "average the weights of the last checkpoints"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--best",
        action="store_true",
        help="no average: take the checkpoint that validated best, where patience ran out since",
    )


def perform(job: Job) -> None:
    from training.averaged import Document, average, interpolated, take_best

    recipe = job.recipe

    def finish(document: Document) -> Document:
        return interpolated(document, recipe, job.run, job.options.bundles)

    towards = "" if recipe.strength == 1 else f"; strength {recipe.strength}: the remainder initial"
    if job.options.best:
        print(f"took step {take_best(job.run, finish)}, which validated best{towards}")
    else:
        steps = ", ".join(map(str, average(job.run, recipe.average, finish)))
        print(f"averaged steps {steps}{towards}")
