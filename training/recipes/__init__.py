"""Complete runs, as functions. To change a run, derive it with ``dataclasses.replace``."""

from __future__ import annotations

from collections.abc import Callable

from training.recipe import InvalidRecipe, Recipe
from training.recipes.multi30k import multi30k_de_en, multi30k_en_de
from training.recipes.reverse import reverse

RECIPES: dict[str, Callable[[], Recipe]] = {
    recipe().name: recipe for recipe in (reverse, multi30k_de_en, multi30k_en_de)
}


def recipe_named(name: str) -> Recipe:
    """Raises ``InvalidRecipe`` naming the recipes there are."""
    if name not in RECIPES:
        raise InvalidRecipe(f"no recipe is called {name!r}; there are {', '.join(RECIPES)}")
    return RECIPES[name]()
