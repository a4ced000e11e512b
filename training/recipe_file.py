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

    A value is parsed as JSON, or taken as text. All settings are applied before the recipe is
    validated, so that fields that depend on one another can be set in any order. Raises
    ``InvalidRecipe`` naming a field that does not exist, or whose value does not fit.
    """
    document = recipe.to_dict()
    texts: dict[str, str] = {}
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals:
            raise InvalidRecipe(
                f"{setting!r} sets nothing; write FIELD=VALUE, such as optimisation.warmup=2000"
            )
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        if not isinstance(value, str):
            texts[path] = text
        _set(document, path, value)
    try:
        return Recipe.from_dict(document)
    except InvalidRecipe as error:
        # A name may look like a number.
        unfit = texts.keys() & error.places
        if not unfit:
            raise
        for path in unfit:
            _set(document, path, texts[path])
        try:
            return Recipe.from_dict(document)
        except InvalidRecipe:
            raise error from None


def _set(document: dict[str, Any], path: str, value: Any) -> None:
    place: Any = document
    *parts, last = path.split(".")
    for i, part in enumerate(parts):
        key = _key(place, part, ".".join(parts[: i + 1]))
        place = place[key]
    # The recipe's own validation names a last part that is no field.
    place[last if isinstance(place, dict) else _key(place, last, path)] = value


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
