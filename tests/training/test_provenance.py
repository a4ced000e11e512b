"""Corpora listed on a bundle's model card."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from training.export.export import data_of
from training.recipe import Corpus, Recipe
from training.recipes import recipe_named
from training.run_directory import RunDirectory


def prepared_run(directory: Path, recipe: Recipe, kept: dict[str, int]) -> RunDirectory:
    run = RunDirectory(directory / recipe.name)
    run.path.mkdir()
    run.recipe.write_text(json.dumps(recipe.to_dict()), encoding="utf-8")
    train = {label: {"kept": pairs} for label, pairs in kept.items()}
    run.report.write_text(json.dumps({"train": train}), encoding="utf-8")
    return run


def of(recipe: Recipe, *names: str, **changes: str) -> Recipe:
    corpora = tuple(Corpus(name=name, licence=f"of {name}") for name in names)
    return replace(recipe, data=replace(recipe.data, train=corpora), **changes)  # type: ignore[arg-type]


def test_corpora_of_initial_runs_are_listed_with_licences(tmp_path: Path) -> None:
    captions = of(recipe_named("multi30k-de-en"), "captions", "dropped", name="first")
    prepared_run(tmp_path, captions, {"captions": 7, "dropped": 0})
    more = of(captions, "captions", "news", name="second", initial="first")
    assert names(more, prepared_run(tmp_path, more, {"captions": 7, "news": 5})) == [
        ("captions", "of captions", 7),
        ("news", "of news", 5),
    ]
    other = of(captions, "talks", name="third", initial="second")
    assert names(other, prepared_run(tmp_path, other, {"talks": 3})) == [
        ("talks", "of talks", 3),
        ("captions, in second", "of captions", 7),
        ("news, in second", "of news", 5),
    ]


def test_corpus_in_other_languages_is_listed_separately(tmp_path: Path) -> None:
    german = of(recipe_named("multi30k-de-en"), "captions", name="german")
    prepared_run(tmp_path, german, {"captions": 7})
    french = replace(german, name="french", initial="german")
    french = replace(french, data=replace(french.data, source="fr"))
    assert names(french, prepared_run(tmp_path, french, {"captions": 6})) == [
        ("captions", "of captions", 6),
        ("captions, in german", "of captions", 7),
    ]


def names(recipe: Recipe, run: RunDirectory) -> list[tuple[str, str, int]]:
    return [(corpus.name, corpus.licence, corpus.pairs) for corpus in data_of(recipe, run)]
