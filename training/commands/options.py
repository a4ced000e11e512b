"""Shared command-line options and their interpretation: recipe, run directory, device."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from training.commands import Commands
from training.data import default_data_directory
from training.refusal import Refusal

if TYPE_CHECKING:
    import torch

    from training.recipe import Recipe
    from training.run_directory import RunDirectory

PRECISIONS = ("fp32", "int8", "fp16")


class NoDevice(Refusal):
    """The device does not exist here, or is not supported."""


def add_recipe_command(commands: Commands, command: ModuleType) -> None:
    """Add the parser of a command about a recipe, with the options common to such commands."""
    help: str = command.HELP
    description = f"{help[0].upper()}{help[1:]}."
    parser = commands.add_parser(name_of(command), help=help, description=description)
    add_recipe(parser)
    add_places(parser)
    add_device(parser)
    if hasattr(command, "add_options"):
        command.add_options(parser)
    parser.set_defaults(perform=lambda options: command.perform(job_of(options)))


@dataclass(frozen=True, slots=True)
class Job:
    """A recipe, its run directory, and the options of the command that is performed on them."""

    recipe: Recipe
    run: RunDirectory
    options: argparse.Namespace
    """The other options of the command line."""


def name_of(command: ModuleType) -> str:
    return command.__name__.rpartition(".")[2]


def add_recipe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "recipe",
        metavar="RECIPE",
        help="the name of a recipe (`python -m training recipes`), or a .json or .toml file",
    )
    add_settings(parser)
    parser.add_argument(
        "--steps", type=positive, help="train so many steps (default: the recipe's)"
    )
    parser.add_argument(
        "--reduced",
        action="store_true",
        help="two steps of a tiny network, to see whether everything is in its place",
    )
    parser.add_argument(
        "--corpus", metavar="NAME", help="with --reduced: instead of every corpus of the recipe"
    )


def add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        dest="settings",
        metavar="FIELD=VALUE",
        action="append",
        default=[],
        help="change a field of the recipe, such as optimisation.warmup=2000; may be repeated",
    )


def add_places(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    parser.add_argument(
        "--runs", type=Path, default=Path("runs"), help="where runs are kept (default: runs)"
    )
    parser.add_argument(
        "--bundles", type=Path, default=Path("bundles"), help="where to publish (default: bundles)"
    )


def add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device",
        help="cpu, cuda or cuda:NUMBER (default: cuda where there is a GPU)",
    )
    add_threads(parser)


def add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        type=Path,
        default=default_data_directory(),
        help="directory of corpora (default: $TRAINING_DATA or ../shared/data)",
    )


def add_threads(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", type=count, default=0, help="CPU threads (default: all cores)")


def add_precisions(parser: argparse.ArgumentParser, default: Sequence[str], described: str) -> None:
    parser.add_argument(
        "--precisions",
        nargs="+",
        choices=PRECISIONS,
        default=default,
        help=f"what the bundle offers (default: {described})",
    )


def recipe_of(options: argparse.Namespace) -> Recipe:
    """The recipe that the options of ``add_recipe`` describe.

    Raises ``InvalidRecipe`` if the name is unknown or the recipe is invalid.
    """
    from training.recipe import InvalidRecipe
    from training.recipe_file import find_recipe, overridden
    from training.recipes.reduced import reduced

    recipe = find_recipe(options.recipe)
    if options.reduced:
        recipe = reduced(recipe, options.corpus)
    elif options.corpus is not None:
        raise InvalidRecipe(
            "--corpus goes with --reduced; to train on other text, write a recipe of your own: "
            f"`python -m training show {options.recipe} > mine.json`"
        )
    recipe = overridden(recipe, options.settings)
    if options.steps is not None:
        recipe = replace(recipe, budget=replace(recipe.budget, steps=options.steps))
    return recipe


def job_of(options: argparse.Namespace) -> Job:
    """Recipe and run that the options of ``add_recipe_command`` name; raises as ``recipe_of``."""
    from training.run_directory import RunDirectory

    recipe = recipe_of(options)
    return Job(recipe, RunDirectory(options.runs / recipe.name), options)


def device_of(options: argparse.Namespace) -> torch.device:
    """The device that ``--device`` names, otherwise CUDA where there is a GPU.

    Raises ``NoDevice``.
    """
    import torch

    devices = torch.cuda.device_count()
    text = options.device or ("cuda" if devices else "cpu")
    try:
        found = torch.device(text)
    except RuntimeError as error:
        raise NoDevice(f"--device {text!r} is no device; say cpu or cuda") from error
    if found.type not in ("cpu", "cuda"):
        raise NoDevice(f"--device {text!r} has not been tried; say cpu or cuda")
    if found.type == "cuda" and (found.index or 0) >= devices:
        raise NoDevice(
            f"--device {text!r} is not here: PyTorch {torch.__version__} sees {devices} CUDA "
            "devices"
        )
    return found


def count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number} is less than none")
    return number


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than one")
    return number
