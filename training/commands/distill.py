"""``distill`` command: trains a student on a bundle's translations and exports its bundle.

Sequence-level distillation (Kim and Rush, 2016): machine translations are simpler and more regular
than human ones, so a small network learns more from them. Every training target is the teacher's
translation by beam search.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from training.commands import run
from training.commands.options import Job

if TYPE_CHECKING:
    from training.recipe import Corpus, Data, Recipe

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
    from training.refusal import Refusal
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
            directory.derived.write_text(student.to_json(), encoding="utf-8")
        try:
            run.perform(Job(student, directory, options))
        except Refusal:
            # The same command derives the recipe again.
            if not directory.data.is_dir():
                directory.derived.unlink()
            raise


def distilled(recipe: Recipe, teacher: str, name: str) -> Recipe:
    """The recipe on the teacher's translations of its training sources, in each direction.

    Both directions of a bidirectional recipe have corpora of their own, so that human text is
    always the source. No pairs are held out. Raises ``InvalidRecipe`` if a corpus has no human text
    to translate.
    """
    from training.recipe import InvalidRecipe

    data = recipe.data
    trained: list[Corpus] = []
    for corpus in data.train:
        if corpus.generator is not None or corpus.translated == "source":
            made = "generated" if corpus.generator is not None else "back-translated"
            raise InvalidRecipe(
                f"recipe {recipe.name!r} cannot be distilled: corpus {corpus.name!r} is {made}, "
                "and a teacher translates what was found; distill a recipe without it"
            )
        trained += (
            replace(each, translated="target", translator=teacher, hold_out=None)
            for each in _one_way(data, corpus)
        )
    # Deduplicates a corpus that the recipe has both as found text and already distilled.
    once = {corpus.label: corpus for corpus in trained}
    valid, *more_valid = (each for corpus in data.valid_sets for each in _one_way(data, corpus))
    test, *more_test = (each for corpus in data.test_sets for each in _one_way(data, corpus))
    return replace(
        recipe,
        name=name,
        bundle=None,
        budget=replace(recipe.budget, judged_on=None),
        data=replace(
            data,
            bidirectional=False,
            train=tuple(once.values()),
            valid=valid,
            more_valid=tuple(more_valid),
            test=test,
            more_test=tuple(more_test),
        ),
    )


def _one_way(data: Data, corpus: Corpus) -> Iterator[Corpus]:
    """The corpus as it is, and in the other direction if the recipe is bidirectional."""
    yield corpus
    if data.bidirectional:
        source, target = data.languages(corpus)
        yield replace(corpus, source=target, target=source)
