"""``python -m training COMMAND RECIPE``: the hops of a run, one by one or all of them."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch

from models.bundle.manifest import InvalidBundle, Precision
from models.transformer.transformer import Transformer
from training import checkpoint
from training.data.corpus import CorpusError
from training.evaluation import evaluate
from training.export.export import PRECISIONS, export
from training.export.parity import ParityError
from training.prepare import prepare
from training.recipe import InvalidRecipe, Recipe, RunDirectory
from training.recipes import RECIPES, recipe_named
from training.shortlist import FREQUENT, PER_SOURCE, make_shortlist
from training.trainer import Trainer

COMMANDS = ("prepare", "train", "average", "evaluate", "shortlist", "export")
REFUSALS = (
    CorpusError,
    InvalidRecipe,
    InvalidBundle,
    ParityError,
    checkpoint.CheckpointError,
    FileNotFoundError,
    FloatingPointError,
)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    if options.threads:
        torch.set_num_threads(options.threads)
    try:
        recipe = recipe_named(options.recipe)
        if options.steps is not None:
            recipe = replace(recipe, budget=replace(recipe.budget, steps=options.steps))
        commands = COMMANDS if options.command == "run" else (options.command,)
        for command in commands:
            _perform(command, recipe, options)
    except REFUSALS as error:
        print(f"training: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(
            "training: interrupted; the same command goes on from the last checkpoint",
            file=sys.stderr,
        )
        return 130
    return 0


def default_data_directory() -> Path:
    """Where corpora are looked for when nobody says."""
    return Path(os.environ.get("TRAINING_DATA", "../shared/data"))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m training",
        description="Train a Transformer and export it as a bundle.",
        epilog="`run` is prepare, train, average, evaluate, shortlist and export, in this order.",
    )
    parser.add_argument("command", choices=(*COMMANDS, "run"))
    parser.add_argument("recipe", metavar="RECIPE", help=", ".join(RECIPES))
    parser.add_argument(
        "--data",
        type=Path,
        default=default_data_directory(),
        help="directory of corpora (default: $TRAINING_DATA or ../shared/data)",
    )
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where runs are kept")
    parser.add_argument("--bundles", type=Path, default=Path("bundles"), help="where to publish")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads (default: all cores)")
    parser.add_argument("--steps", type=int, help="train so many steps instead of the recipe's")
    parser.add_argument(
        "--precisions",
        nargs="+",
        choices=PRECISIONS,
        default=["int8"],
        help="what the bundle offers (default: int8)",
    )
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
    return parser


def count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number} is less than none")
    return number


def _perform(command: str, recipe: Recipe, options: argparse.Namespace) -> None:
    run = RunDirectory(options.runs / recipe.name)
    match command:
        case "prepare":
            print(json.dumps(prepare(recipe, run, options.data), indent=2))
        case "train":
            progress = Trainer(recipe, run, torch.device(options.device)).train()
            print(json.dumps(asdict(progress)))
        case "average":
            paths = checkpoint.checkpoints(run.path)[-recipe.average :]
            document = checkpoint.average(paths)
            checkpoint.save(document, run.averaged)
            print(f"averaged steps {', '.join(map(str, document['averaged']))}")
        case "evaluate":
            print(json.dumps(asdict(evaluate(recipe, run, _network(run), options.data)), indent=2))
        case "shortlist":
            report = make_shortlist(
                recipe, run, options.data, per_source=options.per_source, frequent=options.frequent
            )
            print(json.dumps(asdict(report), indent=2))
        case "export":
            precisions: tuple[Precision, ...] = tuple(options.precisions)
            bundle, proof = export(
                recipe, run, _network(run), options.bundles, options.data, precisions
            )
            print(json.dumps(asdict(proof), indent=2))
            print(f"published {bundle.path}")


def _network(run: RunDirectory) -> Transformer:
    if not run.averaged.exists():
        raise checkpoint.CheckpointError(
            f"{run.averaged} does not exist; run `python -m training average RECIPE` first"
        )
    document = checkpoint.load(run.averaged)
    newer = checkpoint.checkpoints(run.path)
    if newer and newer[-1] > checkpoint.path_of(run.path, max(document["averaged"])):
        raise checkpoint.CheckpointError(
            f"{run.averaged} is older than {newer[-1].name}; run `python -m training average "
            "RECIPE` again"
        )
    return checkpoint.restore(document)
