"""The vocabularies of a run: learned from its text, or taken over from the run it starts from."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from models.bundle.bundle import SOURCE_TOKENIZER, TARGET_TOKENIZER, TOKENIZER
from models.bundle.tokenizer import train_tokenizer
from training.data.corpus import Pair
from training.data.tags import tags_of
from training.recipe import InvalidRecipe, Recipe
from training.run_directory import RunDirectory

SAMPLE = 200_000
"""Pairs that a vocabulary is learned from: SentencePiece holds them all, and more helps little."""


def make_vocabularies(
    recipe: Recipe,
    run: RunDirectory,
    directory: Path,
    pairs: Callable[[], Iterable[Pair]],
    count: int,
) -> RunDirectory:
    """Write the tokenizers of a recipe to ``directory``, as those of a run; learn them from
    ``count`` pairs, or take over those of the recipe's ``initial`` run, which lies beside ``run``,
    if the recipe has its languages and describes the vocabulary as that run's does.

    Raises ``InvalidRecipe`` if the text cannot fill the vocabulary, or the other run shares its
    vocabulary where this one does not, or is not prepared.
    """
    made = RunDirectory(directory)
    if recipe.initial is not None:
        initial = RunDirectory(run.path.parent / recipe.initial)
        other = _recipe_to_start_from(recipe, initial)
        if (other.data.directions, other.vocabulary) == (recipe.data.directions, recipe.vocabulary):
            shared = recipe.vocabulary.shared
            for name in [TOKENIZER] if shared else [SOURCE_TOKENIZER, TARGET_TOKENIZER]:
                shutil.copyfile(initial.path / name, directory / name)
            return made
    if recipe.vocabulary.shared:
        _learn(recipe, (side for pair in sampled(pairs(), count) for side in pair), made.tokenizer)
    else:
        sources = (pair.source for pair in sampled(pairs(), count))
        _learn(recipe, sources, made.source_tokenizer)
        targets = (pair.target for pair in sampled(pairs(), count))
        _learn(recipe, targets, made.target_tokenizer)
    return made


def sampled(pairs: Iterable[Pair], count: int, most: int = SAMPLE) -> Iterator[Pair]:
    """At most ``most`` of ``count`` pairs, evenly spread."""
    for i, pair in enumerate(pairs):
        if count <= most or i * most // count != (i - 1) * most // count:
            yield pair


def _learn(recipe: Recipe, texts: Iterable[str], path: Path) -> None:
    vocabulary = recipe.vocabulary
    try:
        train_tokenizer(
            texts,
            path,
            vocabulary_size=vocabulary.size,
            kind=vocabulary.kind,
            character_coverage=vocabulary.character_coverage,
            control_symbols=tags_of(recipe.data),
            lossless=vocabulary.lossless,
        )
    except ValueError as error:
        raise InvalidRecipe(f"recipe {recipe.name!r}: {error}") from error


def _recipe_to_start_from(recipe: Recipe, initial: RunDirectory) -> Recipe:
    if not initial.recipe.exists() or not initial.data.is_dir():
        raise InvalidRecipe(
            f"recipe {recipe.name!r} starts from the run {recipe.initial!r}, and {initial.path} "
            f"has not been prepared; run `python -m training run {recipe.initial}` first"
        )
    other = Recipe.from_dict(json.loads(initial.recipe.read_text(encoding="utf-8")))
    if other.vocabulary.shared != recipe.vocabulary.shared:
        raise InvalidRecipe(
            f"one of recipe {recipe.name!r} and the run {recipe.initial!r} that it starts from has "
            "a vocabulary for both sides, and the other one for each; let both share, or neither"
        )
    return other
