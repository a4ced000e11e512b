"""``shortlist`` command: builds the run's vocabulary shortlist."""

from __future__ import annotations

import argparse

from training.commands.options import count, recipe_of, run_of

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


def perform(options: argparse.Namespace) -> None:
    from training.shortlist.selection import make_shortlist

    recipe = recipe_of(options)
    run = run_of(options, recipe)
    report = make_shortlist(
        recipe,
        run,
        options.data,
        per_source=options.per_source,
        frequent=options.frequent,
    )
    covered = report.valid if report.translations is None else report.translations
    print(
        f"wrote {run.shortlist}: {covered.average_size:,.0f} of {report.vocabulary:,} pieces for a "
        f"sentence, with {covered.allowed:.1%} of those that "
        f"{'the validation set has' if report.translations is None else 'translations have'}"
    )
