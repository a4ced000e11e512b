"""``export`` command: exports the averaged network as a bundle."""

from __future__ import annotations

import argparse
import json
import shlex
from typing import TYPE_CHECKING

from training.commands import Commands
from training.commands.options import add_precisions, recipe_of, recipe_parser, run_of

if TYPE_CHECKING:
    from models.bundle.bundle import Bundle


def add_to(commands: Commands) -> None:
    parser = recipe_parser(commands, "export", "write the graphs, prove them, publish a bundle")
    add_options(parser)
    parser.set_defaults(perform=perform)


def add_options(parser: argparse.ArgumentParser) -> None:
    add_precisions(parser, ["int8"], "int8")


def perform(options: argparse.Namespace) -> None:
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


def described(bundle: Bundle) -> str:
    """Size of a published bundle, and the commands that use it."""
    manifest = bundle.manifest
    megabytes = sum(path.stat().st_size for path in bundle.path.iterdir()) / 1e6
    direction = manifest.directions[0]
    shown = [each.source for each in manifest.examples if each.direction == 0]
    body = json.dumps(
        {
            "q": shown[0] if shown else "...",
            "source": direction.source,
            "target": direction.target,
            "model": manifest.name,
        },
        ensure_ascii=False,
    )
    parent = bundle.path.parent
    place = "" if str(parent) == "bundles" else f"DRAGOMAN_BUNDLES={shlex.quote(str(parent))} "
    return (
        f"published {bundle.path}: {megabytes:.1f} MB, {', '.join(manifest.precisions)}\n"
        f"{place}make serve, then\n"
        "curl localhost:8000/translate -H 'Content-Type: application/json' "
        f"-d {shlex.quote(body)}\n"
        f"{place}make bench-quality ARGS='{manifest.name} --record' writes scores into its card"
    )
