"""Loads recipes from JSON or TOML files, and overrides single fields from the command line."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from training.recipe import InvalidRecipe, Recipe
from training.recipes import recipe_named

SUFFIXES = (".json", ".toml")


def find_recipe(name: str) -> Recipe:
    """The recipe of a name, or of a file that ends in ``.json`` or ``.toml``.

    Raises ``InvalidRecipe`` if it is unknown or invalid.
    """
    return read_recipe(Path(name)) if name.endswith(SUFFIXES) else recipe_named(name)


def read_recipe(path: Path) -> Recipe:
    try:
        text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
        return Recipe.from_dict(document)
    except OSError as error:
        raise InvalidRecipe(
            f"the recipe {path} cannot be read: {error.strerror}; "
            "`python -m training new NAME --from CODE --to CODE > FILE.toml` writes one"
        ) from error
    except ValueError as error:
        raise InvalidRecipe(f"{path} is not {path.suffix[1:].upper()}: {error}") from error
    except InvalidRecipe as error:
        raise InvalidRecipe(f"{path}: {error}") from error


def overridden(recipe: Recipe, settings: Sequence[str]) -> Recipe:
    """The recipe with fields changed, each as ``part.field=value``; list items by index.

    A value is parsed as JSON, or taken as text. Raises ``InvalidRecipe`` naming a field that does
    not exist, or whose value does not fit.
    """
    for setting in settings:
        path, equals, value = setting.partition("=")
        if not equals:
            raise InvalidRecipe(
                f"{setting!r} sets nothing; write FIELD=VALUE, such as optimisation.warmup=2000"
            )
        recipe = _set(recipe, path, value)
    return recipe


def _set(recipe: Recipe, path: str, text: str) -> Recipe:
    try:
        value = json.loads(text)
    except ValueError:
        return Recipe.from_dict(_changed(recipe, path, text))
    try:
        return Recipe.from_dict(_changed(recipe, path, value))
    except InvalidRecipe:
        if isinstance(value, str):
            raise
        # Falls back to the text, because a name may look like a number.
        try:
            return Recipe.from_dict(_changed(recipe, path, text))
        except InvalidRecipe:
            pass
        raise


def _changed(recipe: Recipe, path: str, value: Any) -> dict[str, Any]:
    document = recipe.to_dict()
    place: Any = document
    *parts, last = path.split(".")
    for i, part in enumerate(parts):
        key = _key(place, part, ".".join(parts[: i + 1]))
        place = place[key]
    # Decoding lacks the keys that a recipe leaves to the manifest's defaults.
    place[last if place is document["decoding"] else _key(place, last, path)] = value
    return document


def _key(place: Any, part: str, path: str) -> str | int:
    if isinstance(place, dict):
        if part in place:
            return part
        raise InvalidRecipe(f"{path}: there is no such field; there are {', '.join(place)}")
    if isinstance(place, list):
        if part.isdecimal() and int(part) < len(place):
            return int(part)
        raise InvalidRecipe(f"{path}: there are {len(place)}, counted from 0")
    raise InvalidRecipe(f"{path}: {path.rpartition('.')[0]} is a value, and has no fields")
