from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from models.bundle.tokenizer import Tokenizer
from tests.support.tiny_training import prepared, tiny_recipe
from training.data.corpus import CorpusError
from training.data.generated import generate
from training.data.shards import Shards
from training.prepare import prepare
from training.recipe import Corpus, InvalidRecipe, Recipe, RunDirectory, Vocabulary


def found_recipe() -> Recipe:
    """The tiny recipe on corpora that are files."""
    corpora = {
        name: Corpus(name=name, licence="CC0-1.0") for name in ("one", "two", "held", "test")
    }
    tiny = tiny_recipe()
    data = replace(
        tiny.data,
        train=(corpora["one"], corpora["two"]),
        valid=corpora["held"],
        test=corpora["test"],
        max_length=5,
    )
    return replace(tiny, data=data)


def put(directory: Path, name: str, pairs: list[tuple[str, str]], zipped: bool = False) -> None:
    for language, lines in zip(("x-digits", "x-reversed"), zip(*pairs, strict=True), strict=True):
        text = "".join(f"{line}\n" for line in lines).encode()
        path = directory / f"{name}.{language}{'.gz' if zipped else ''}"
        path.write_bytes(gzip.compress(text) if zipped else text)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    put(tmp_path, "one", [("1 2 3", "3 2 1"), ("", "1"), ("1  2 3", "3 2 1")])
    put(tmp_path, "two", [("4 5", "5 4"), ("1 2 3 4 5 6", "6 5 4 3 2 1")], zipped=True)
    put(tmp_path, "held", [("2 4", "4 2"), ("1 1 1 1 1 1", "X 1 X 1 X 1")])
    return tmp_path


def test_shards_hold_the_text_in_tokens(tmp_path: Path) -> None:
    run = prepared(tmp_path, tiny_recipe())
    tokenizer = Tokenizer.load(run.tokenizer)
    shards = Shards.open(run.shards("train"))
    pairs = list(generate("reverse", "train", 200))
    assert len(shards) == len(pairs)
    for i, (source, target) in enumerate(pairs):
        assert tokenizer.decode(shards.source[i].tolist()) == source
        assert tokenizer.decode(shards.target[i].tolist()) == target
    assert len(Shards.open(run.shards("valid"))) == 6


def test_the_report_says_what_each_filter_dropped(data: Path) -> None:
    run = RunDirectory(data / "run")
    report = prepare(found_recipe(), run, data)
    assert report["train"] == {
        "one": {"read": 3, "kept": 1, "dropped": {"empty": 1, "duplicate": 1}},
        "two": {"read": 2, "kept": 1, "dropped": {"too long": 1}},
    }
    assert report["pairs"] == 2
    assert (report["source tokens"], report["target tokens"]) == (5, 5)
    assert (report["valid pairs"], report["valid with too many pieces"]) == (1, 1)
    assert json.loads(run.report.read_text(encoding="utf-8")) == report


def test_the_vocabulary_is_learned_from_what_is_kept_of_the_training_text(data: Path) -> None:
    run = RunDirectory(data / "run")
    prepare(found_recipe(), run, data)
    tokenizer = Tokenizer.load(run.tokenizer)
    pieces = {piece.strip("▁") for piece in tokenizer.pieces(range(tokenizer.vocabulary_size))}
    assert set("12345") <= pieces
    assert not {"6", "X"} & pieces


def test_a_run_remembers_its_recipe(tmp_path: Path) -> None:
    run = prepared(tmp_path, tiny_recipe())
    assert Recipe.from_dict(json.loads(run.recipe.read_text(encoding="utf-8"))) == tiny_recipe()


def test_preparing_again_gives_the_same(data: Path) -> None:
    run = RunDirectory(data / "run")
    contents = []
    for _ in range(2):
        prepare(found_recipe(), run, data)
        files = sorted(path for path in run.path.rglob("*") if path.is_file())
        contents.append({path.name: path.read_bytes() for path in files})
    assert contents[0] == contents[1]


def test_a_missing_corpus_says_where_to_put_it(data: Path) -> None:
    (data / "held.x-digits").unlink()
    with pytest.raises(CorpusError, match=r"put it at .*held\.x-digits"):
        prepare(found_recipe(), RunDirectory(data / "run"), data)


@pytest.mark.parametrize("name", ["one", "held"])
def test_a_corpus_of_which_nothing_is_left_is_named(data: Path, name: str) -> None:
    recipe = found_recipe()
    if name == "one":
        recipe = replace(recipe, data=replace(recipe.data, train=recipe.data.train[:1]))
    put(data, name, [("1 2 3 4 5 6", "6 5 4 3 2 1")])
    with pytest.raises(CorpusError, match=f"no pair of {name} is left"):
        prepare(recipe, RunDirectory(data / "run"), data)


def test_a_preparation_that_fails_leaves_the_one_before_as_it_was(data: Path) -> None:
    run = RunDirectory(data / "run")
    prepare(found_recipe(), run, data)
    before = run.tokenizer.read_bytes()
    put(data, "one", [("7 8 9", "9 8 7")])
    (data / "held.x-digits").unlink()
    with pytest.raises(CorpusError, match="held"):
        prepare(found_recipe(), run, data)
    # The old shards are still there, and mean nothing without the tokenizer they were made with.
    assert Shards.open(run.shards("train"))
    assert run.tokenizer.read_bytes() == before


def test_a_vocabulary_that_the_text_cannot_fill_is_the_recipes_fault(data: Path) -> None:
    recipe = replace(found_recipe(), vocabulary=Vocabulary(size=5000))
    with pytest.raises(InvalidRecipe, match="'tiny': no unigram tokenizer of 5000 pieces fits"):
        prepare(recipe, RunDirectory(data / "run"), data)


def test_a_preparation_that_is_cut_short_leaves_nothing_to_train_on(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunDirectory(data / "run")
    prepare(found_recipe(), run, data)
    assert Shards.open(run.shards("train"))

    def cut_short(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Shards, "write", cut_short)
    with pytest.raises(KeyboardInterrupt):
        prepare(found_recipe(), run, data)
    with pytest.raises(FileNotFoundError, match="prepare"):
        Shards.open(run.shards("train"))
