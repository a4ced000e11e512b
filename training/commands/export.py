"""``export`` command: exports the averaged network as a bundle."""

from __future__ import annotations

import argparse

from training.commands.options import Job, add_precisions

HELP = "write the graphs, prove them, publish a bundle"


def add_options(parser: argparse.ArgumentParser) -> None:
    add_precisions(parser, ["int8"], "int8")


def perform(job: Job) -> None:
    from models.export.publication import described
    from training.averaged import averaged_network
    from training.export.export import export

    bundle, proof = export(
        job.recipe,
        job.run,
        averaged_network(job.run, job.recipe.strength),
        job.options.bundles,
        job.options.data,
        tuple(job.options.precisions),
    )
    print(proof)
    print(described(bundle))
