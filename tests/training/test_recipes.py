"""Sizes of the built-in recipes, and an end-to-end run of every recipe at a reduced size."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from models.bundle.bundle import Bundle
from models.transformer.transformer import Transformer
from tests.support.tiny_training import with_network
from training.cli import main
from training.commands.recipes import parameters, summary
from training.loop.schedule import noam, schedule_of
from training.recipe import Recipe
from training.recipes import RECIPES, recipe_named
from training.recipes.reduced import reduced as small

MILLION = 1_000_000

pytestmark = pytest.mark.usefixtures("few_samples")


@pytest.mark.parametrize(
    ("name", "duration"),
    [("general-de-en", "14 hours"), ("general-de-en-fine-tuned", "90 minutes")],
)
def test_documentation_and_recipe_state_the_same_duration(name: str, duration: str) -> None:
    page = (Path(__file__).parents[2] / "docs/training.md").read_text(encoding="utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
    assert f"one core, {duration}" in row
    assert f"{duration} of one core" in recipe_named(name).effort


@pytest.mark.parametrize(
    ("name", "millions", "rel"),
    [
        ("paper-base-en-de", 65, 0.02),
        ("paper-big-en-de", 213, 0.02),
        # Table 3 rounds, its vocabulary is "about" 37,000, and two-layer networks have few others.
        ("paper-base-en-de-2-layers", 36, 0.05),
        ("paper-base-en-de-4-layers", 50, 0.05),
        ("paper-base-en-de-8-layers", 80, 0.05),
        ("paper-base-en-de-width-256", 28, 0.05),
        ("paper-base-en-de-width-1024", 168, 0.05),
        ("paper-base-en-de-feed-forward-1024", 53, 0.05),
        ("paper-base-en-de-feed-forward-4096", 90, 0.05),
        # Published networks are small.
        ("general-de-en", 9, 0.12),
        ("general-free-de-en", 9, 0.12),
        ("everyday-de-en", 6, 0.16),
    ],
)
def test_parameter_counts_match_the_paper_and_the_documentation(
    name: str, millions: int, rel: float
) -> None:
    assert parameters(recipe_named(name)) == pytest.approx(millions * MILLION, rel=rel)


def test_tensor2tensor_v2_doubles_the_papers_rate_and_warmup() -> None:
    first, second = (recipe_named(f"tensor2tensor-v{version}-en-de") for version in (1, 2))
    for step in (1, 4_000, 8_000, 100_000):
        assert schedule_of(first)(step) == pytest.approx(noam(512, 4_000)(step))
        assert schedule_of(second)(step) == pytest.approx(2 * noam(512, 8_000)(step))
    assert (first.network.norm, second.network.norm) == ("after", "before")


def test_free_recipe_uses_corpora_under_free_licences_only() -> None:
    unfree = ("unstated", "research", "non-commercial")
    free = recipe_named("general-free-de-en").data.train
    assert not [c for c in free if any(word in c.licence for word in unfree)]
    assert {*free} < {*recipe_named("general-de-en").data.train}


def test_recipes_are_listed_in_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    listed = summary(recipe_named("general-de-en")).split()
    assert listed[:4] == ["de↔en", "8.9M", "18,000", "steps"]
    assert main(["recipes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(RECIPES)


@pytest.mark.parametrize(
    "name",
    ["reverse", "copy", "general-de-en", "paper-base-en-fr", "paper-base-en-de-learned-positions"],
)
@pytest.mark.parametrize("decoder", ["self-attention", "ssru"])
def test_parameters_are_counted_as_the_network_has_them(name: str, decoder: str) -> None:
    recipe = with_network(recipe_named(name), decoder=decoder)
    with torch.device("meta"):
        network = Transformer(recipe.network.config(recipe.vocabulary.size))
    assert parameters(recipe) == network.num_parameters


SENTENCES = [
    (f"{a} {b} {c}.", f"{c} {b} a {a}.")
    for a in ("Haus", "Hund", "Baum", "Kind", "Rad")
    for b in ("groß", "klein", "alt", "jung", "neu")
    for c in ("sieht", "geht", "lacht", "singt", "ruft", "tanzt", "weint", "schläft")
]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("reduced")
    (directory / "data").mkdir()
    for name, pairs in (("some", SENTENCES), ("few", SENTENCES[:6])):
        for language in ("de", "en", "es", "fr", "nl", "cs"):
            side = language == "de"
            text = "".join(f"{pair[not side]} {language}\n" for pair in pairs)
            (directory / "data" / f"{name}.{language}").write_text(text, encoding="utf-8")
    return directory


def reduced(places: Path, command: str, recipe: str) -> int:
    options = ["--reduced", "--corpus=some", "--threads=1"]
    options += [f"--{place}={places / place}" for place in ("data", "runs", "bundles")]
    if recipe not in GENERATED:
        options += ["--set=data.valid.name=few", "--set=data.test.name=few"]
        if not recipe_named(recipe).vocabulary.lossless:
            options += ["--set=vocabulary.size=40"]
    if command == "run":
        # An untrained network is too unsure for the int8 parity check.
        options.append("--precisions=fp32")
    return main([command, recipe, *options])


GENERATED = ("reverse", "copy")
WHOLE = (
    "multi30k-de-en",
    "multi30k-en-de",
    "multi30k-de-en-augmented",
    "general-de-en",
    "multi",
    "paper-base-en-fr",
    "paper-base-en-de-learned-positions",
    "tensor2tensor-v2-en-de",
)
"""One recipe of each kind of bundle, run up to it. Other recipes differ in training only."""
WORDS = ("name", "bundle", "description", "effort", "licence", "domain", "origin")


@pytest.fixture
def translated_at_once(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the translators: returns the other side with its words reversed."""

    def translate(
        bundle: Path, source: str, target: str, input: Path, output: Path, **_: object
    ) -> None:
        lines = (places / "data" / f"some.{target}").read_text(encoding="utf-8").splitlines()
        said = "".join(f"{' '.join(line.split()[::-1])}\n" for line in lines)
        output.write_bytes(gzip.compress(said.encode()))

    monkeypatch.setattr("training.data.translate.translate_file", translate)
    monkeypatch.setattr("training.data.translate.find_translator", translator(places))


def translator(places: Path) -> Callable[[str, Path], Path]:
    """Finds the reduced bundle of the translator's recipe."""
    return lambda name, bundles: bundles / f"{name}-reduced"


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
def test_each_kind_of_recipe_runs_from_text_to_a_bundle(
    places: Path, translated_at_once: None, name: str
) -> None:
    assert reduced(places, "run", name) == 0
    recipe = recipe_named(name)
    manifest = Bundle.open(places / "bundles" / f"{name}-reduced").manifest
    directions = {(each.source, each.target) for each in manifest.directions}
    assert directions == set(recipe.data.directions)


@pytest.mark.slow
def test_all_other_recipes_can_be_trained(
    places: Path, translated_at_once: None, capsys: pytest.CaptureFixture[str]
) -> None:
    tried = {*map(_kind, WHOLE)}
    others: dict[str, Recipe] = {}
    for name, make in RECIPES.items():
        kind = _kind(name)
        if name not in WHOLE and kind not in tried:
            tried.add(kind)
            others[name] = make()
    for name in sorted(others, key=lambda name: _runs_before(others[name])):
        wanted = [corpus for corpus in others[name].data.train if corpus.translated]
        for command in (*(["translate"] if wanted else []), "prepare", "train", "average"):
            assert reduced(places, command, name) == 0, capsys.readouterr().err


def _runs_before(recipe: Recipe) -> int:
    """Number of runs whose weights a recipe starts from, one after the other."""
    return 0 if recipe.initial is None else 1 + _runs_before(recipe_named(recipe.initial))


def _kind(name: str) -> str:
    """Key that is equal for reduced recipes that differ in words and rates alone."""
    return json.dumps(_without_words_and_rates(small(recipe_named(name), "some").to_dict()))


def _without_words_and_rates(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _without_words_and_rates(each)
            for name, each in value.items()
            if name not in WORDS
        }
    if isinstance(value, list):
        return [_without_words_and_rates(each) for each in value]
    return value > 0 if isinstance(value, float) else value
