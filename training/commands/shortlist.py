"""``shortlist`` command: builds the run's vocabulary shortlist."""

from __future__ import annotations

import argparse

from training.commands.options import Job, count

HELP = "learn which pieces translate which"

PER_SOURCE, FREQUENT = 100, 100


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--per-source",
        type=count,
        default=PER_SOURCE,
        help=f"shortlist so many target ids for every source id at most (default: {PER_SOURCE})",
    )
    parser.add_argument(
        "--frequent",
        type=count,
        default=FREQUENT,
        help=f"shortlist so many of the likeliest target ids anyway (default: {FREQUENT})",
    )


def perform(job: Job) -> None:
    from training.shortlist.selection import make_shortlist

    report = make_shortlist(
        job.recipe,
        job.run,
        job.options.data,
        per_source=job.options.per_source,
        frequent=job.options.frequent,
    )
    covered = report.valid if report.translations is None else report.translations
    print(
        f"wrote {job.run.shortlist}: {covered.average_size:,.0f} of {report.vocabulary:,} pieces "
        f"for a sentence, with {covered.allowed:.1%} of those that "
        f"{'the validation set has' if report.translations is None else 'translations have'}"
    )
