"""``distill`` command: trains a student on a bundle's translations and exports its bundle."""

from __future__ import annotations

import argparse
import json

from training.commands import Commands, run
from training.commands.options import recipe_of, recipe_parser, run_of
from training.disk import writing
from training.distillation import distilled
from training.recipe import InvalidRecipe
from training.translate import find_translator


def add_to(commands: Commands) -> None:
    parser = recipe_parser(
        commands, "distill", "train a recipe on what a bundle says, through all hops"
    )
    parser.add_argument(
        "--teacher",
        required=True,
        metavar="BUNDLE",
        help="what translates the training text: a name in --bundles, or a path",
    )
    parser.add_argument(
        "--name", help="of the student's run and bundle (default: RECIPE-distilled)"
    )
    run.add_options(parser)
    parser.set_defaults(perform=perform)


def perform(options: argparse.Namespace) -> None:
    recipe = recipe_of(options)
    teacher = find_translator(options.teacher, options.bundles).resolve()
    student = distilled(recipe, str(teacher), options.name or f"{recipe.name}-distilled")
    if (options.bundles / student.name).resolve() == teacher:
        raise InvalidRecipe(
            f"the student {student.name!r} would be published in its teacher's place; choose "
            "another with --name"
        )
    directory = run_of(options, student)
    with writing(directory.path):
        directory.path.mkdir(parents=True, exist_ok=True)
        directory.derived.write_text(
            json.dumps(student.to_dict(), indent=2) + "\n", encoding="utf-8"
        )
    # The file contains the changes that these options made.
    changes: dict[str, object] = {"steps": None, "settings": [], "reduced": False, "corpus": None}
    recipe_file = {"recipe": str(directory.derived)}
    run.perform(argparse.Namespace(**{**vars(options), **changes, **recipe_file}))
