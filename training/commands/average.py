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
    from training.averaged import average, take_best

    if job.options.best:
        print(f"took step {take_best(job.run)}, which validated best")
    else:
        print(f"averaged steps {', '.join(map(str, average(job.run, job.recipe.average)))}")
