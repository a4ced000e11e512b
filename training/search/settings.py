"""Decoding settings of a run and its bundle: the recipe's, or those that ``tune`` found best."""

from __future__ import annotations

import json

from models.bundle.manifest import DecodingDefaults
from training.recipe import InvalidRecipe, Recipe
from training.run_directory import RunDirectory


def decoding_of(recipe: Recipe, run: RunDirectory) -> DecodingDefaults:
    """Raises ``InvalidRecipe`` if the tuned settings cannot be read, or the recipe's decoding has
    changed since."""
    if not run.decoding.exists():
        return DecodingDefaults.model_validate(recipe.decoding)
    try:
        document = json.loads(run.decoding.read_text(encoding="utf-8"))
        tuned, instead = document["decoding"], document["instead_of"]
        found = DecodingDefaults.model_validate(tuned)
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidRecipe(
            f"{run.decoding} cannot be read: {' '.join(str(error).split())}; remove it, or run "
            "`python -m training tune` again"
        ) from error
    if instead != recipe.decoding:
        raise InvalidRecipe(
            f"{run.decoding} says {tuned}, found best instead of {instead}, and the recipe "
            f"asks for {recipe.decoding}; remove the file to have what the recipe says"
        )
    return found
