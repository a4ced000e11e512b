from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.tiny_training import tiny_recipe, with_budget, with_optimisation
from training.recipe import InvalidRecipe
from training.recipe_file import find_recipe, overridden, read_recipe

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


def test_omitted_fields_have_their_defaults(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(TOML, encoding="utf-8")
    recipe = read_recipe(path)
    assert (recipe.name, recipe.data.train[0].name) == ("own", "mine/train")
    assert (recipe.average, recipe.optimisation.warmup, recipe.initial) == (5, 4000, None)


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("missing.json", None, "cannot be read: No such file or directory; `python -m training"),
        ("half.json", "{", "half.json is not JSON"),
        ("half.toml", "[", "half.toml is not TOML"),
        ("list.json", "[]", "list.json: the recipe does not fit: the document"),
        ("own.toml", TOML.replace("size = 100", "sizes = 100"), "there are size, kind"),
        ("own.toml", TOML.replace('name = "own"', ""), "name: is missing"),
    ],
)
def test_invalid_recipe_file_is_named(
    tmp_path: Path, name: str, text: str | None, complaint: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(InvalidRecipe) as refused:
        find_recipe(str(tmp_path / name))
    assert complaint in str(refused.value)


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
    ("setting", "complaint"),
    [
        ("seed", "'seed' sets nothing; write FIELD=VALUE"),
        ("sead=2", "sead: there is no such field; there are name, data, "),
        ("network.width.x=2", "network.width.x: network.width is a value, and has no fields"),
        ("data.train.1.repeat=2", "data.train.1: there are 1, counted from 0"),
        ("budget.steps=many", "budget.steps: input should be a valid integer, not 'many'"),
        ("budget.steps=0", "budget.steps: input should be greater than or equal to 1, not 0"),
        ("decoding.beams=2", "decoding.beams: there is no such field; there are beam_size"),
    ],
)
def test_invalid_setting_error_gives_the_reason(setting: str, complaint: str) -> None:
    with pytest.raises(InvalidRecipe) as refused:
        overridden(tiny_recipe(), [setting])
    assert complaint in str(refused.value)


def test_toml_date_is_read_as_text(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f"effort = 2026-11-22\n{TOML}", encoding="utf-8")
    assert read_recipe(path).effort == "2026-11-22"
    path.write_text(f"seed = 2026-11-22\n{TOML}", encoding="utf-8")
    with pytest.raises(InvalidRecipe, match=r"seed: .*, not '2026-11-22'"):
        read_recipe(path)
