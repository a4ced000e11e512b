"""Sequence-level distillation (Kim and Rush, 2016): a student trains on a teacher's translations.

Machine translations are simpler and more regular than human ones, so a small network learns more
from them. Every training target is the teacher's translation by beam search.
"""

from __future__ import annotations

from dataclasses import replace

from training.recipe import Corpus, InvalidRecipe, Recipe


def distilled(recipe: Recipe, teacher: str, name: str) -> Recipe:
    """The recipe on the teacher's translations of its training sources, in each direction.

    Raises ``InvalidRecipe`` if a corpus has no human text to translate.
    """
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
