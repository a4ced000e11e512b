"""The vocabularies of a run: learned from its text, or taken over from a run or a bundle."""

from __future__ import annotations

import itertools
import logging
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from models.bundle.tokenizer import train_tokenizer
from training.data.corpus import Pair, sampled
from training.data.tags import tags_of
from training.initial.pretrained import Pretrained
from training.loop.resuming import vocabulary_of
from training.recipe import InvalidRecipe, Recipe
from training.run_directory import RunDirectory

logger = logging.getLogger(__name__)

_LARGEST = re.compile(r"Please set it to a value <= (\d+)")
"""Error of SentencePiece for a text that cannot fill the vocabulary."""


def make_vocabularies(
    recipe: Recipe,
    pretrained: Pretrained | None,
    directory: Path,
    pairs: Callable[[], Iterable[Pair]],
    count: int,
) -> RunDirectory:
    """Write the tokenizers of a recipe to ``directory``, as those of a run. They are copies of the
    tokenizers of ``pretrained`` if it has the recipe's directions and described vocabulary, or if
    the recipe inherits them, and are otherwise learned from ``count`` pairs.

    Raises ``InvalidRecipe`` if no vocabulary can be learned, if ``pretrained`` has other directions
    than a recipe that inherits its vocabulary, or if only one of the recipe and ``pretrained``
    shares a vocabulary between both sides.
    """
    made = RunDirectory(directory)
    if pretrained is not None:
        shared, inherited = recipe.vocabulary.shared, recipe.vocabulary.inherited
        same_directions = pretrained.has_directions_of(recipe)
        if inherited and not same_directions:
            raise InvalidRecipe(
                f"recipe {recipe.name!r} inherits the vocabulary of {pretrained.label}, which has "
                "other directions or marks them by other tokens"
            )
        if not inherited and not pretrained.allows_sharing(shared):
            raise InvalidRecipe(
                f"one of recipe {recipe.name!r} and {pretrained.label} that it starts from has a "
                "vocabulary for both sides, and the other one for each; let both share, or neither"
            )
        if same_directions and (inherited or pretrained.has_vocabulary_of(recipe)):
            logger.info("the vocabulary is that of %s", pretrained.label)
            for name in vocabulary_of(RunDirectory(pretrained.path)):
                shutil.copyfile(pretrained.path / name, directory / name)
            return made
        logger.info(
            "%s has other directions or another vocabulary: a vocabulary is learned",
            pretrained.label,
        )

    def sample() -> Iterator[Pair]:
        return sampled(pairs(), count, recipe.vocabulary.sample)

    if recipe.vocabulary.shared:
        _learn(recipe, lambda: itertools.chain.from_iterable(sample()), made.tokenizer)
    else:
        _learn(recipe, lambda: (pair.source for pair in sample()), made.source_tokenizer)
        _learn(recipe, lambda: (pair.target for pair in sample()), made.target_tokenizer)
    return made


def _learn(recipe: Recipe, texts: Callable[[], Iterable[str]], path: Path) -> None:
    """Learn a vocabulary of the recipe's size, or of as many pieces as the texts fill."""
    wanted = recipe.vocabulary.size
    logger.info("learning a vocabulary of %s pieces", f"{wanted:,}")
    try:
        _learn_pieces(recipe, texts(), path, wanted)
    except ValueError as error:
        fitting = _LARGEST.search(str(error))
        if fitting is None:
            raise InvalidRecipe(f"recipe {recipe.name!r}: {error}") from error
        most = int(fitting[1])
        logger.warning(
            "the text has too few different pieces for vocabulary.size %s: the vocabulary has %s",
            *(f"{wanted:,}", f"{most:,}"),
        )
        _learn_pieces(recipe, texts(), path, most)


def _learn_pieces(recipe: Recipe, texts: Iterable[str], path: Path, size: int) -> None:
    vocabulary = recipe.vocabulary
    train_tokenizer(
        texts,
        path,
        vocabulary_size=size,
        kind=vocabulary.kind,
        character_coverage=vocabulary.character_coverage,
        control_symbols=tags_of(recipe.data),
        lossless=vocabulary.lossless,
    )
