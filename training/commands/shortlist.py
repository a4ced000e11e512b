"""``shortlist`` command: builds the run's vocabulary shortlist."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from training.commands import Commands
from training.commands.options import count, recipe_of, recipe_parser, run_of
from training.shortlist.selection import FREQUENT, PER_SOURCE, make_shortlist


def add_to(commands: Commands) -> None:
    parser = recipe_parser(commands, "shortlist", "learn which pieces translate which")
    add_options(parser)
    parser.set_defaults(perform=perform)


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
    recipe = recipe_of(options)
    report = make_shortlist(
        recipe,
        run_of(options, recipe),
        options.data,
        per_source=options.per_source,
        frequent=options.frequent,
    )
    print(json.dumps(asdict(report), indent=2))
