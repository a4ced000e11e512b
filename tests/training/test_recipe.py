from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, asdict, replace
from pathlib import Path

import pytest

from models.bundle.languages import canonical
from models.bundle.manifest import DecodingDefaults
from models.transformer.transformer import Transformer
from tests.support.tiny_training import tiny_recipe, with_network
from training.recipe import InvalidRecipe, Recipe, RunDirectory
from training.recipes import RECIPES, recipe_named
from training.schedule import schedule_of


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_on_offer_makes_sense(name: str) -> None:
    recipe = recipe_named(name)
    assert recipe.name == name
    network = Transformer(recipe.network.config(100))
    assert 1e4 < network.num_parameters < 2e7
    assert recipe.budget.keep_checkpoints >= recipe.average
    assert recipe.optimisation.tokens_per_batch > recipe.data.max_length
    assert 0 < schedule_of(recipe)(recipe.budget.steps) < 1e-2
    assert canonical(recipe.data.source) != canonical(recipe.data.target)
    DecodingDefaults.model_validate(recipe.decoding)


def test_both_directions_of_multi30k_differ_in_direction_and_budget_only() -> None:
    forth, back = recipe_named("multi30k-de-en"), recipe_named("multi30k-en-de")
    assert (forth.data.source, forth.data.target) == (back.data.target, back.data.source)
    data = replace(back.data, source=forth.data.source, target=forth.data.target)
    assert replace(back, name=forth.name, data=data, budget=forth.budget) == forth


def test_an_unknown_recipe_is_answered_with_those_there_are() -> None:
    with pytest.raises(InvalidRecipe, match=r"'revers'; there are reverse, multi30k-de-en"):
        recipe_named("revers")


@pytest.mark.parametrize("recipe", [tiny_recipe(), *(make() for make in RECIPES.values())])
def test_a_recipe_reads_back_from_json(recipe: Recipe) -> None:
    assert Recipe.from_dict(json.loads(json.dumps(recipe.to_dict()))) == recipe


def test_a_saved_recipe_that_does_not_fit_names_each_field() -> None:
    document = tiny_recipe().to_dict()
    document["budget"]["steps"] = "many"
    del document["network"]["width"]
    with pytest.raises(InvalidRecipe) as refused:
        Recipe.from_dict(document)
    assert "budget.steps" in str(refused.value)
    assert "network.width" in str(refused.value)


def test_a_network_must_read_what_it_is_trained_on() -> None:
    recipe = tiny_recipe()
    with_network(recipe, max_length=13)
    with pytest.raises(InvalidRecipe, match="sequences of 13 tokens; its network reads 12"):
        with_network(recipe, max_length=12)


def test_every_choice_of_a_recipes_network_reaches_the_network() -> None:
    choices = {
        "encoder_layers": 3,
        "decoder_layers": 2,
        "width": 8,
        "heads": 4,
        "feed_forward": 12,
        "norm": "before",
        "positions": "learned",
        "tying": "none",
        "residual_dropout": 0.11,
        "attention_dropout": 0.12,
        "feed_forward_dropout": 0.13,
        "embedding_dropout": 0.14,
        "max_length": 40,
    }
    config = with_network(tiny_recipe(), **choices).network.config(77)
    sizes = {"source_vocabulary": 77, "target_vocabulary": 77, "pad_id": 0}
    assert asdict(config) == {**choices, **sizes}


def test_a_recipe_cannot_be_changed_only_derived_from() -> None:
    recipe = tiny_recipe()
    with pytest.raises(FrozenInstanceError):
        recipe.seed = 2  # type: ignore[misc]
    assert replace(recipe, seed=2).seed == 2


def test_a_run_keeps_everything_in_its_directory(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    places = [run.tokenizer, run.report, run.recipe, run.log, run.averaged, run.scores]
    places += [run.shards("train"), run.shards("valid")]
    assert len(set(places)) == len(places)
    assert all(place.is_relative_to(tmp_path) for place in places)
