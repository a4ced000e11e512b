"""``distill`` command: trains a student on a bundle's translations and exports its bundle.

Sequence-level distillation (Kim and Rush, 2016): machine translations are simpler and more regular
than human ones, so a small network learns more from them. Every training target is the teacher's
translation by beam search.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from training.commands import run
from training.commands.options import Job

if TYPE_CHECKING:
    from training.recipe import Recipe

HELP = "train a recipe on what a bundle says, through all hops"


def add_options(parser: argparse.ArgumentParser) -> None:
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


def perform(job: Job) -> None:
    from training.data.translate import find_translator
    from training.disk import writing
    from training.recipe import InvalidRecipe
    from training.run_directory import RunDirectory
    from training.run_lock import locked

    options = job.options
    teacher = find_translator(options.teacher, options.bundles).resolve()
    student = distilled(job.recipe, str(teacher), options.name or f"{job.recipe.name}-distilled")
    if (options.bundles / student.name).resolve() == teacher:
        raise InvalidRecipe(
            f"the student {student.name!r} would be published in its teacher's place; choose "
            "another with --name"
        )
    directory = RunDirectory(options.runs / student.name)
    with locked(directory):
        with writing(directory.path):
            directory.derived.write_text(
                json.dumps(student.to_dict(), indent=2) + "\n", encoding="utf-8"
            )
        run.perform(Job(student, directory, options))


def distilled(recipe: Recipe, teacher: str, name: str) -> Recipe:
    """The recipe on the teacher's translations of its training sources, in each direction.

    Raises ``InvalidRecipe`` if a corpus has no human text to translate.
    """
    from training.recipe import Corpus, InvalidRecipe

    trained: list[Corpus] = []
    for corpus in recipe.data.train:
        if corpus.generator is not None or corpus.translated == "source":
            made = "generated" if corpus.generator is not None else "back-translated"
            raise InvalidRecipe(
                f"recipe {recipe.name!r} cannot be distilled: corpus {corpus.name!r} is {made}, "
                "and a teacher translates what was found; distill a recipe without it"
            )
        trained.append(replace(corpus, translated="target", translator=teacher))
        if recipe.data.bidirectional:
            trained.append(replace(corpus, translated="source", translator=teacher))
    # Deduplicates a corpus that the recipe has both as found text and already distilled.
    once = {corpus.label: corpus for corpus in trained}
    return replace(
        recipe, name=name, bundle=None, data=replace(recipe.data, train=tuple(once.values()))
    )
