"""``prepare`` command: turns text into token shards."""

from __future__ import annotations

import argparse
import json

from training.commands import Commands
from training.commands.options import recipe_of, recipe_parser, run_of
from training.prepare import prepare


def add_to(commands: Commands) -> None:
    parser = recipe_parser(
        commands, "prepare", "read and clean the corpora, learn the vocabulary, write token ids"
    )
    parser.set_defaults(perform=perform)


def perform(options: argparse.Namespace) -> None:
    recipe = recipe_of(options)
    report = prepare(recipe, run_of(options, recipe), options.data, options.bundles)
    print(json.dumps(report, indent=2))
