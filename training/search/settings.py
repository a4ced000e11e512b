"""How a run's network is searched, and what its bundle says of that: the recipe's word or, where
the run has been tuned, what was found best on its validation set.
"""

from __future__ import annotations

import json

from models.bundle.manifest import DecodingDefaults, SpecialIds
from training.recipe import InvalidRecipe, Recipe
from training.run_directory import RunDirectory
from training.search.beam import Searching


def decoding_of(recipe: Recipe, run: RunDirectory) -> DecodingDefaults:
    """Raises ``InvalidRecipe`` if what was found best cannot be read, or the recipe has asked for
    something else since."""
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


def searching_of(
    decoding: DecodingDefaults, special: SpecialIds, target_prefix: tuple[int, ...] = ()
) -> Searching:
    return Searching(
        special,
        decoding.beam_size,
        decoding.length_penalty,
        decoding.length_normalisation,
        target_prefix,
    )
