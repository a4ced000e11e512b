from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from models.bundle.languages import canonical
from models.bundle.manifest import DecodingDefaults
from tests.support.tiny_training import tiny_recipe, with_network
from training.loop.schedule import schedule_of
from training.recipe import Corpus, InvalidRecipe, Recipe
from training.recipes import RECIPES, recipe_named
from training.run_directory import RunDirectory


@pytest.mark.parametrize("name", RECIPES)
def test_built_in_recipe_is_consistent(name: str) -> None:
    recipe = recipe_named(name)
    assert recipe.name == name
    assert Recipe.from_dict(recipe.to_dict()) == recipe
    assert recipe.effort
    assert recipe.budget.keep_checkpoints >= recipe.average
    assert recipe.optimisation.tokens_per_batch > recipe.data.max_length
    assert len(recipe.data.directions) == 1 + recipe.data.bidirectional
    assert 0 < schedule_of(recipe)(recipe.budget.steps) < 1e-2
    assert canonical(recipe.data.source) != canonical(recipe.data.target)
    DecodingDefaults.model_validate(recipe.decoding)


def test_both_directions_of_multi30k_differ_in_direction_and_budget_only() -> None:
    forth, back = recipe_named("multi30k-de-en"), recipe_named("multi30k-en-de")
    assert (forth.data.source, forth.data.target) == (back.data.target, back.data.source)
    data = replace(back.data, source=forth.data.source, target=forth.data.target)
    assert replace(back, name=forth.name, data=data, budget=forth.budget) == forth


def test_unknown_recipe_error_suggests_similar_names() -> None:
    with pytest.raises(InvalidRecipe, match=r"'revers'; there are reverse and others"):
        recipe_named("revers")
    with pytest.raises(InvalidRecipe, match=r"there are multi30k-en-de, .*`python -m training rec"):
        recipe_named("multi30k-en-de-")


@pytest.mark.parametrize("recipe", [tiny_recipe(), *(make() for make in RECIPES.values())])
def test_a_recipe_reads_back_from_json(recipe: Recipe) -> None:
    assert Recipe.from_dict(json.loads(json.dumps(recipe.to_dict()))) == recipe


def test_invalid_saved_recipe_names_each_field() -> None:
    document = tiny_recipe().to_dict()
    document["budget"]["steps"] = "many"
    del document["data"]["source"]
    with pytest.raises(InvalidRecipe) as refused:
        Recipe.from_dict(document)
    assert "budget.steps" in str(refused.value)
    assert "data.source" in str(refused.value)


def test_seed_that_torch_does_not_take_is_refused() -> None:
    document = tiny_recipe().to_dict()
    torch.manual_seed(Recipe.from_dict({**document, "seed": 2**64 - 1}).seed)
    for seed in (2**64, 10**40):
        with pytest.raises(InvalidRecipe, match="seed: "):
            Recipe.from_dict({**document, "seed": seed})


def test_recipe_needs_a_name_languages_and_corpora_only() -> None:
    data = {
        "source": "de",
        "target": "en",
        "train": [{"name": "mine/train"}],
        "valid": {"name": "mine/valid"},
        "test": {"name": "mine/test"},
    }
    recipe = Recipe.from_dict({"name": "mine", "data": data})
    assert Recipe.from_dict(recipe.to_dict()) == recipe
    assert 0 < schedule_of(recipe)(recipe.budget.steps) < 1e-2
    for missing in data:
        rest = {name: value for name, value in data.items() if name != missing}
        with pytest.raises(InvalidRecipe, match=rf"data\.{missing}: is missing$"):
            Recipe.from_dict({"name": "mine", "data": rest})


def test_invalid_item_of_a_list_is_the_only_complaint_about_the_list() -> None:
    document = tiny_recipe().to_dict()
    document["data"]["train"] = [{"title": "train"}]
    with pytest.raises(InvalidRecipe) as refused:
        Recipe.from_dict(document)
    assert "data.train.0" in str(refused.value)
    assert "data.train:" not in str(refused.value)


def test_network_shorter_than_its_training_text_is_refused() -> None:
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
    assert {name: value for name, value in asdict(config).items() if name in choices} == choices
    assert {name: getattr(config, name) for name in sizes} == sizes


def test_each_side_may_have_its_own_vocabulary() -> None:
    config = with_network(tiny_recipe(), tying="decoder").network.config(77, 55)
    assert (config.source_vocabulary, config.target_vocabulary) == (77, 55)


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("network.widht", 3, "network.widht: there is no such field; there are encoder_layers,"),
        ("network.width", "16", "network.width: input should be a valid integer, not '16'"),
        ("network.width", 3, "width 3 is not a multiple of 2 heads"),
        ("network.norm", "up", "network.norm: input should be 'before' or 'after', not 'up'"),
        ("network.residual_dropout", 1.0, "residual_dropout: input should be less than 1, not 1"),
        ("budget.steps", 0, "budget.steps: input should be greater than or equal to 1, not 0"),
        ("budget.keep_checkpoints", True, "keep_checkpoints: input should be a valid integer"),
        ("optimisation.schedule", "noon", "optimisation.schedule: input should be 'noam', "),
        ("optimisation.peak_learning_rate", None, "'inverse_sqrt' needs a peak_learning_rate"),
        ("optimisation.label_smoothing", float("nan"), "should be a finite number, not nan"),
        ("optimisation.betas", [0.9], "optimisation.betas.1: is missing"),
        ("data.train", [], "data.train: tuple should have at least 1 item"),
        ("data.target", "x-digits", "source and target are both 'x-digits'"),
        ("vocabulary.size", 4, "vocabulary.size: input should be greater than or equal to 5"),
        ("vocabulary.shared", False, "has separate vocabularies, and ties all embeddings"),
        ("decoding", {"beam_size": 0}, "decoding.beam_size: input should be greater than"),
        ("decoding", {"beam": 2}, "decoding.beam: there is no such field; there are beam_size,"),
        ("name", "a/b", "name: string should match pattern"),
        ("average", 3, "averages 3 checkpoints and keeps 2"),
    ],
)
def test_invalid_recipe_names_the_field(field: str, value: object, complaint: str) -> None:
    document = tiny_recipe().to_dict()
    place = document
    *parts, last = field.split(".")
    for part in parts:
        place = place[part]
    place[last] = value
    with pytest.raises(InvalidRecipe) as refused:
        Recipe.from_dict(document)
    assert complaint in str(refused.value)


def test_bidirectional_recipe_requires_a_shared_vocabulary() -> None:
    tiny = with_network(tiny_recipe(), tying="none")
    with pytest.raises(InvalidRecipe, match="it needs a shared vocabulary"):
        replace(
            tiny,
            data=replace(tiny.data, bidirectional=True),
            vocabulary=replace(tiny.vocabulary, shared=False),
        )


def test_duplicate_corpus_label_is_refused() -> None:
    found = Corpus(name="c", licence="CC0-1.0")
    made = replace(found, translated="source", translator="b")
    data = replace(tiny_recipe().data, train=(found, made))
    assert [corpus.label for corpus in data.train] == ["c", "c, source by b"]
    with pytest.raises(InvalidRecipe, match="names a corpus twice; give it a `repeat` instead: c"):
        replace(data, train=(found, found))


def test_a_bidirectional_run_has_shards_of_each_direction(tmp_path: Path) -> None:
    run, data = RunDirectory(tmp_path), tiny_recipe().data
    assert run.shards_of("valid", data) == {("x-digits", "x-reversed"): run.shards("valid")}
    both = run.shards_of("valid", replace(data, bidirectional=True))
    assert list(both) == [("x-digits", "x-reversed"), ("x-reversed", "x-digits")]
    assert len({run.shards("valid"), *both.values()}) == 3


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("DE", "the language 'DE' is written 'de'"),
        ("pt_BR", "the language 'pt_BR' is written 'pt-BR'"),
        ("german", "for a language of your own, write x-NAME"),
        ("cz", "'cz' is not the code of a known language"),
    ],
)
def test_a_language_has_one_spelling(code: str, complaint: str) -> None:
    with pytest.raises(InvalidRecipe, match=complaint):
        replace(tiny_recipe().data, source=code)


@pytest.mark.parametrize("place", ["valid", "test"])
def test_validation_and_test_corpora_are_neither_translated_nor_repeated(place: str) -> None:
    data = tiny_recipe().data
    found = Corpus(name="held", licence="CC0-1.0")
    for changed in (
        replace(found, repeat=2),
        replace(found, translated="source", translator="other"),
    ):
        with pytest.raises(InvalidRecipe, match=f"data.{place}, 'held', is compared with as it is"):
            replace(data, **{place: changed})  # type: ignore[arg-type]


def test_label_names_the_translator_without_its_path() -> None:
    corpus = Corpus(name="mine", licence="CC0-1.0", translated="target", translator="/at/home/big")
    assert corpus.label == "mine, target by big"
