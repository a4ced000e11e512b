"""``export`` command: exports the averaged network as a bundle."""

from __future__ import annotations

import argparse

from training.commands.options import add_precisions, recipe_of, run_of

HELP = "write the graphs, prove them, publish a bundle"


def add_options(parser: argparse.ArgumentParser) -> None:
    add_precisions(parser, ["int8"], "int8")


def perform(options: argparse.Namespace) -> None:
    from models.export.publication import described
    from training.averaged import averaged_network
    from training.export.export import export

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
    print(proof)
    print(described(bundle))
