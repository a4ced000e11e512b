from __future__ import annotations

import itertools
import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from models.bundle.languages import canonical
from models.bundle.manifest import DecodingDefaults
from tests.support.tiny_training import tiny_recipe, with_budget, with_network, with_optimisation
from training.data.tags import tags_of
from training.loop.schedule import schedule_of
from training.recipe import Corpus, Data, InvalidRecipe, Recipe
from training.recipe_file import find_recipe, overridden, read_recipe
from training.recipes import RECIPES, recipe_named
from training.run_directory import RunDirectory, validated_splits


@pytest.mark.parametrize("name", RECIPES)
def test_built_in_recipe_is_consistent(name: str) -> None:
    recipe = recipe_named(name)
    assert recipe.name == name
    assert Recipe.from_dict(json.loads(json.dumps(recipe.to_dict()))) == recipe
    assert recipe.effort
    assert recipe.budget.keep_checkpoints >= recipe.average
    assert recipe.optimisation.tokens_per_batch > recipe.data.max_length
    pairs = {frozenset(recipe.data.languages(corpus)) for corpus in recipe.data.train}
    assert len(recipe.data.directions) == len(pairs) * (1 + recipe.data.bidirectional)
    assert 0 < schedule_of(recipe)(recipe.budget.steps) < 1e-2
    assert canonical(recipe.data.source) != canonical(recipe.data.target)
    DecodingDefaults.model_validate(recipe.decoding)


def test_both_directions_of_multi30k_differ_in_direction_and_budget_only() -> None:
    forth, back = recipe_named("multi30k-de-en"), recipe_named("multi30k-en-de")
    assert (forth.data.source, forth.data.target) == (back.data.target, back.data.source)
    data = replace(back.data, source=forth.data.source, target=forth.data.target)
    assert replace(back, name=forth.name, data=data, budget=forth.budget) == forth


def test_unknown_recipe_error_suggests_similar_names() -> None:
    for name, similar in (("revers", "reverse"), ("multi30k-en-de-", "multi30k-en-de")):
        with pytest.raises(InvalidRecipe, match=f"there are {similar}"):
            recipe_named(name)


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
        with pytest.raises(InvalidRecipe, match=rf"data\.{missing}: "):
            Recipe.from_dict({"name": "mine", "data": rest})


def test_each_invalid_field_is_named_once() -> None:
    document = tiny_recipe().to_dict()
    document["budget"]["steps"] = "many"
    document["data"]["train"] = [{"title": "train"}]
    with pytest.raises(InvalidRecipe) as refused:
        Recipe.from_dict(document)
    assert "budget.steps: " in str(refused.value)
    assert "data.train.0" in str(refused.value) and "data.train:" not in str(refused.value)


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
        "decoder": "ssru",
        "residual_dropout": 0.11,
        "attention_dropout": 0.12,
        "feed_forward_dropout": 0.13,
        "embedding_dropout": 0.14,
        "max_length": 40,
    }
    recipe = with_network(tiny_recipe(), **choices)
    for sizes, vocabularies in (((77,), (77, 77)), ((77, 55), (77, 55))):
        config = recipe.network.config(*sizes)
        assert {name: value for name, value in asdict(config).items() if name in choices} == choices
        assert (config.source_vocabulary, config.target_vocabulary) == vocabularies
        assert config.pad_id == 0


HELD = {"name": "held", "licence": "CC0-1.0"}


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("network.widht", 3, "network.widht: "),
        ("network.width", "16", "network.width: "),
        ("network.width", 3, "width 3"),
        ("network.norm", "up", "network.norm: "),
        ("network.decoder", "gru", "network.decoder: "),
        ("network.residual_dropout", 1.0, "residual_dropout: "),
        # Training text has sequences of 12 tokens, which eos follows.
        ("network.max_length", 12, "13 tokens"),
        ("budget.steps", 0, "budget.steps: "),
        ("budget.steps", "many", "budget.steps: "),
        ("budget.keep_checkpoints", True, "keep_checkpoints: "),
        ("average_of", "most", "average_of: "),
        ("optimisation.schedule", "noon", "optimisation.schedule: "),
        ("optimisation.peak_learning_rate", None, "peak_learning_rate"),
        ("optimisation.schedule", "noam", "remove peak_learning_rate"),
        ("optimisation.label_smoothing", float("nan"), "label_smoothing"),
        ("optimisation.betas", [0.9], "optimisation.betas.1: "),
        ("data.train", [], "data.train: "),
        ("data.train", [HELD, HELD], "twice"),
        ("data.target", "x-digits", "'x-digits'"),
        ("data.source", "DE", "'de'"),
        ("data.source", "pt_BR", "'pt-BR'"),
        ("data.source", "german", "x-NAME"),
        ("data.source", "cz", "'cz'"),
        # The texts that are compared are neither translated nor repeated.
        ("data.valid", HELD | {"repeat": 2}, "data.valid"),
        ("data.test", HELD | {"translated": "source", "translator": "other"}, "data.test"),
        ("vocabulary.size", 4, "vocabulary.size: "),
        ("vocabulary.shared", False, "separate vocabularies"),
        ("decoding", {"beam_size": 0}, "decoding.beam_size: "),
        ("decoding", {"beam": 2}, "decoding.beam: "),
        ("name", "a/b", "name: "),
        ("average", 3, "averages 3"),
        # Torch takes no larger one.
        ("seed", 2**64, "seed: "),
        ("seed", 10**40, "seed: "),
    ],
)
def test_invalid_field_is_named(field: str, value: object, named: str) -> None:
    document = tiny_recipe().to_dict()
    place = document
    *parts, last = field.split(".")
    for part in parts:
        place = place[part]
    place[last] = value
    with pytest.raises(InvalidRecipe, match=re.escape(named)):
        Recipe.from_dict(document)


def test_best_checkpoints_need_validations_that_are_saved_and_are_kept_beside_the_last() -> None:
    recipe = replace(tiny_recipe(), average=9, average_of="best")
    assert with_budget(recipe, validate_every=4, save_every=2).average == 9
    with pytest.raises(InvalidRecipe, match="a multiple of"):
        with_budget(recipe, validate_every=4, save_every=3)


def test_bidirectional_recipe_requires_a_shared_vocabulary() -> None:
    tiny = with_network(tiny_recipe(), tying="none")
    data, vocabulary = (
        replace(tiny.data, bidirectional=True),
        replace(tiny.vocabulary, shared=False),
    )
    with pytest.raises(InvalidRecipe, match="shared vocabulary"):
        replace(tiny, data=data, vocabulary=vocabulary)


def in_french(data: Data, **changes: Any) -> Data:
    """``data``, from German, with a second pair."""
    german = replace(data, source="de", target="en", bidirectional=True)
    train, valid, test = (
        Corpus(name=f"{split}-fr", source="en", target="fr") for split in ("train", "valid", "test")
    )
    more = {"train": (*german.train, train), "more_valid": (valid,), "more_test": (test,)}
    return replace(german, **{**more, **changes})


def test_network_of_several_pairs_has_all_directions_tags_and_sets(tmp_path: Path) -> None:
    data, run = in_french(tiny_recipe().data), RunDirectory(tmp_path)
    assert data.directions == (("de", "en"), ("en", "de"), ("en", "fr"), ("fr", "en"))
    assert tags_of(data) == ("<2en>", "<2de>", "<2fr>")
    assert data.test_set(("fr", "en")).name == "test-fr"
    assert data.valid_set(("en", "de")) == data.valid
    assert [each.label for each in data.train] == ["train", "train-fr, en-fr"]
    assert list(validated_splits(data)) == [None, "valid-fr, en-fr"]
    split, corpus = validated_splits(data)["valid-fr, en-fr"]
    assert list(run.shards_of(split, corpus, data)) == [("en", "fr"), ("fr", "en")]
    assert list(run.translations_of(data)) == list(data.directions)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"more_valid": ()}, "en-fr, fr-en: every trained direction needs one set in data.valid"),
        ({"more_test": ()}, "data.test"),
        ({"train": tiny_recipe().data.train}, "no other direction"),
        ({"more_test": 2 * (Corpus(name="t", source="en", target="fr"),)}, "needs one set"),
        ({"train": (Corpus(name="t", source="fr", target="fr"),)}, "both 'fr'"),
        ({"train": (Corpus(name="t", source="fra", target="en"),)}, "fra"),
        (
            {"more_valid": (Corpus(name="t", source="en", target="fr", repeat=2),)},
            "data.valid, 't'",
        ),
    ],
)
def test_sets_and_languages_that_do_not_fit_the_directions_are_refused(
    changes: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidRecipe, match=named):
        in_french(tiny_recipe().data, **changes)


def test_corpus_names_both_of_its_languages_or_none() -> None:
    with pytest.raises(InvalidRecipe, match="one of source and target"):
        Corpus(name="c", source="de")


def test_corpora_are_labelled_by_their_translators() -> None:
    found = Corpus(name="c", licence="CC0-1.0")
    made = replace(found, translated="source", translator="/at/home/big")
    data = replace(tiny_recipe().data, train=(found, made))
    assert [corpus.label for corpus in data.train] == ["c", "c, source by big"]


def test_a_bidirectional_run_has_shards_of_each_direction(tmp_path: Path) -> None:
    run, data = RunDirectory(tmp_path), tiny_recipe().data
    assert run.shards_of("valid", data.valid, data) == {
        ("x-digits", "x-reversed"): run.shards("valid")
    }
    both = run.shards_of("valid", data.valid, replace(data, bidirectional=True))
    assert list(both) == [("x-digits", "x-reversed"), ("x-reversed", "x-digits")]
    assert len({run.shards("valid"), *both.values()}) == 3


TOML = """
name = "own"
decoding = { beam_size = 2 }

[data]
source = "de"
target = "en"
train = [{ name = "mine/train", licence = "mine" }]
valid = { name = "mine/valid", licence = "mine" }
test = { name = "mine/test", licence = "mine" }

[vocabulary]
size = 100

[network]
encoder_layers = 1
decoder_layers = 1
width = 16
heads = 2
feed_forward = 32

[optimisation]
tokens_per_batch = 500

[budget]
steps = 10
validate_every = 5
"""


def test_recipe_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(tiny_recipe().to_dict()), encoding="utf-8")
    assert find_recipe(str(path)) == tiny_recipe()
    assert find_recipe("reverse").name == "reverse"


def test_omitted_fields_have_their_defaults_and_a_date_is_text(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(f"effort = 2026-11-22\n{TOML}", encoding="utf-8")
    recipe = read_recipe(path)
    assert (recipe.name, recipe.data.train[0].name) == ("own", "mine/train")
    assert (recipe.average, recipe.optimisation.warmup, recipe.initial) == (5, 4000, None)
    assert recipe.effort == "2026-11-22"


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("missing.json", None, "missing.json"),
        ("half.json", "{", "half.json"),
        ("half.toml", "[", "half.toml"),
        ("list.json", "[]", "list.json"),
        ("own.toml", TOML.replace("size = 100", "sizes = 100"), "sizes"),
        ("own.toml", TOML.replace('name = "own"', ""), "name: "),
        ("own.toml", f"seed = 2026-11-22\n{TOML}", "seed: "),
    ],
)
def test_invalid_recipe_file_is_named(
    tmp_path: Path, name: str, text: str | None, named: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(InvalidRecipe, match=named):
        find_recipe(str(tmp_path / name))


def test_any_field_can_be_set() -> None:
    tiny = tiny_recipe()
    assert overridden(tiny, []) == tiny
    settings = ["optimisation.warmup=20", "optimisation.schedule=linear", "budget.patience=3"]
    changed = with_optimisation(tiny, warmup=20, schedule="linear")
    assert overridden(tiny, settings) == with_budget(changed, patience=3)
    assert overridden(changed, ["budget.patience=null"]) == changed
    assert overridden(tiny, ["data.train.0.repeat=2"]).data.train[0].repeat == 2
    assert overridden(tiny, ["decoding.length_penalty=0.5"]).decoding["length_penalty"] == 0.5
    assert overridden(tiny, ["name=1", 'data.source="de"']).name == "1"
    assert overridden(tiny, ["optimisation.betas=[0.8, 0.9]"]).optimisation.betas == (0.8, 0.9)


@pytest.mark.parametrize(
    "settings",
    [
        ["network.width=66", "network.heads=6"],
        ["optimisation.schedule=wsd", "optimisation.decay=3", "optimisation.peak_learning_rate=1"],
        ["average=10", "budget.keep_checkpoints=10", "name=7"],
    ],
)
def test_settings_that_depend_on_one_another_are_applied_in_any_order(settings: list[str]) -> None:
    orders = [overridden(tiny_recipe(), order) for order in itertools.permutations(settings)]
    assert all(each == orders[0] != tiny_recipe() for each in orders)


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("seed", "'seed'"),
        ("sead=2", "sead: "),
        ("network.width.x=2", "network.width.x: "),
        ("data.train.1.repeat=2", "data.train.1: "),
        ("budget.steps=many", "budget.steps: "),
        ("decoding.beams=2", "decoding.beams: "),
    ],
)
def test_invalid_setting_is_named(setting: str, named: str) -> None:
    with pytest.raises(InvalidRecipe, match=named):
        overridden(tiny_recipe(), [setting])
