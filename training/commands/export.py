"""``export`` command: exports the averaged network as a bundle."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from training.averaged import averaged_network
from training.commands import Commands
from training.commands.options import recipe_of, recipe_parser, run_of
from training.export.export import export
from training.export.publication import PRECISIONS


def add_to(commands: Commands) -> None:
    parser = recipe_parser(commands, "export", "write the graphs, prove them, publish a bundle")
    add_options(parser)
    parser.set_defaults(perform=perform)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--precisions",
        nargs="+",
        choices=PRECISIONS,
        default=["int8"],
        help="what the bundle offers (default: int8)",
    )


def perform(options: argparse.Namespace) -> None:
    recipe = recipe_of(options)
    run = run_of(options, recipe)
    bundle, proof = export(
        recipe,
        run,
        averaged_network(run),
        options.bundles,
        options.data,
        tuple(options.precisions),
    )
    print(json.dumps(asdict(proof), indent=2))
    print(f"published {bundle.path}")
