"""Registry of built-in recipes, as functions. Vary a recipe with ``dataclasses.replace``."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import partial

from training.recipe import InvalidRecipe, Recipe
from training.recipes.deep_shallow import multi30k_6_2, multi30k_12_1, paper_6_2, paper_12_1
from training.recipes.general import (
    everyday,
    everyday_fine_tuned,
    general_de_en,
    general_de_en_fine_tuned,
    general_de_en_grown,
    general_de_en_grown_fine_tuned,
    general_de_en_letters,
    general_de_en_refined,
    general_free_de_en,
    general_large_de_en,
    student,
)
from training.recipes.multi import multi
from training.recipes.multi30k import (
    multi30k_augmented,
    multi30k_back_translated,
    multi30k_bidirectional,
    multi30k_de_en,
    multi30k_en_de,
    multi30k_fine_tuned_en_de,
    multi30k_r_drop,
    multi30k_student,
    multi30k_transferred,
)
from training.recipes.paper import (
    paper_base_en_de,
    paper_base_en_fr,
    paper_big_en_de,
    paper_big_en_fr,
)
from training.recipes.reverse import copy, reverse
from training.recipes.table3 import TABLE_3
from training.recipes.tensor2tensor import tensor2tensor_v1, tensor2tensor_v2

_BOTH_WAYS = (("de", "en"), ("en", "de"))

_OFFERED: tuple[Callable[[], Recipe], ...] = (
    reverse,
    copy,
    multi30k_de_en,
    multi30k_en_de,
    *(partial(multi30k_augmented, *pair) for pair in _BOTH_WAYS),
    multi30k_fine_tuned_en_de,
    *(
        partial(multi30k_transferred, source, target)
        for source, target in (("fr", "en"), ("en", "fr"), ("cs", "en"), ("en", "cs"))
    ),
    multi30k_back_translated,
    multi30k_bidirectional,
    multi30k_student,
    multi30k_r_drop,
    multi30k_12_1,
    multi30k_6_2,
    *(partial(everyday, *pair) for pair in _BOTH_WAYS),
    *(partial(everyday_fine_tuned, *pair) for pair in _BOTH_WAYS),
    general_de_en,
    general_de_en_fine_tuned,
    general_de_en_grown,
    general_de_en_grown_fine_tuned,
    general_de_en_letters,
    general_de_en_refined,
    general_free_de_en,
    general_large_de_en,
    student,
    multi,
    paper_base_en_de,
    paper_big_en_de,
    paper_base_en_fr,
    paper_big_en_fr,
    *TABLE_3,
    paper_12_1,
    paper_6_2,
    tensor2tensor_v1,
    tensor2tensor_v2,
)

RECIPES: dict[str, Callable[[], Recipe]] = {make().name: make for make in _OFFERED}


def recipe_named(name: str) -> Recipe:
    """The recipe of that name; raises ``InvalidRecipe`` with similar names."""
    if name not in RECIPES:
        similar = difflib.get_close_matches(name, RECIPES) or [*RECIPES][:3]
        raise InvalidRecipe(
            f"no recipe is called {name!r}; there are {', '.join(similar)} and others, which "
            "`python -m training recipes` lists; a file's name ends in .json or .toml"
        )
    return RECIPES[name]()
