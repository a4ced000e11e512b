"""Runs that start from a published bundle, and the corpora of their cards.

Runs that start from a run are in ``test_trainer``.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import torch

from models.bundle.bundle import Bundle
from models.bundle.tokenizer import SPECIAL_IDS, Tokenizer, Tokenizers, train_tokenizer
from models.transformer.config import TransformerConfig
from models.transformer.transformer import Transformer, build
from tests.support.networks import CONFIG
from tests.support.tiny_training import prepared, tiny_recipe, with_budget, with_network
from training.cli import main
from training.data.prepare import prepare
from training.export.export import data_of, export
from training.initial.bundle_weights import read_network
from training.initial.pretrained import PretrainedBundle, PretrainedRun, find_pretrained
from training.initial.start import rows_for, with_pieces_of
from training.loop.trainer import Trainer
from training.recipe import Corpus, InvalidRecipe, Recipe
from training.recipes import recipe_named
from training.run_directory import RunDirectory

CPU = torch.device("cpu")


def both_ways(recipe: Recipe) -> Recipe:
    return replace(
        recipe,
        data=replace(recipe.data, bidirectional=True),
        vocabulary=replace(recipe.vocabulary, size=recipe.vocabulary.size + 2),
    )


def with_corpus(recipe: Recipe, name: str) -> Recipe:
    data = recipe.data
    return replace(recipe, data=replace(data, train=(replace(data.train[0], name=name),)))


def published(directory: Path, recipe: Recipe) -> tuple[Bundle, Transformer]:
    """A bundle of a recipe, with random weights and without its run."""
    run = prepared(directory / "gone", recipe)
    size = run.tokenizers().source.vocabulary_size
    network = build(recipe.network.config(size), seed=5).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    bundle, _ = export(recipe, run, network, directory / "bundles", directory, ("fp32", "int8"))
    shutil.rmtree(directory / "gone")
    return bundle, network


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Bundle, Transformer]:
    return published(tmp_path_factory.mktemp("places"), replace(tiny_recipe(), name="first"))


@pytest.fixture
def bundle(places: tuple[Bundle, Transformer]) -> Bundle:
    return places[0]


def from_first(**changes: object) -> Recipe:
    return replace(tiny_recipe(), name="second", initial="first", **changes)  # type: ignore[arg-type]


def prepared_from(recipe: Recipe, bundle: Bundle, directory: Path) -> RunDirectory:
    run = RunDirectory(directory / recipe.name)
    prepare(recipe, run, directory, bundle.path.parent)
    return run


def begun(recipe: Recipe, run: RunDirectory, bundle: Bundle) -> Trainer:
    trainer = Trainer(recipe, run, CPU, bundles=bundle.path.parent)
    trainer._begin()
    return trainer


@pytest.mark.parametrize("by_path", [False, True])
def test_run_begins_with_the_weights_and_the_vocabulary_of_a_bundle(
    places: tuple[Bundle, Transformer], tmp_path: Path, by_path: bool
) -> None:
    bundle, network = places
    recipe = from_first()
    if by_path:
        recipe = replace(recipe, initial=str(bundle.path))
    # Text with other pieces, from which another vocabulary would be learned.
    run = prepared_from(with_corpus(recipe, "other"), bundle, tmp_path)
    assert run.tokenizer.read_bytes() == (bundle.path / "tokenizer.model").read_bytes()
    trainer = begun(with_corpus(recipe, "other"), run, bundle)
    for name, weight in network.state_dict().items():
        assert torch.equal(trainer.network.state_dict()[name], weight), name


def test_bidirectional_bundle_gives_its_vocabulary_with_tags(tmp_path: Path) -> None:
    first = both_ways(replace(tiny_recipe(), name="first"))
    bundle, network = published(tmp_path, first)
    recipe = both_ways(from_first())
    run = prepared_from(with_corpus(recipe, "other"), bundle, tmp_path)
    assert run.tokenizer.read_bytes() == (bundle.path / "tokenizer.model").read_bytes()
    trainer = begun(with_corpus(recipe, "other"), run, bundle)
    assert torch.equal(trainer.network.generator.weight, network.generator.weight)


@pytest.mark.parametrize(
    "change",
    [
        both_ways,
        lambda r: replace(r, vocabulary=replace(r.vocabulary, size=16)),
        lambda r: replace(r, vocabulary=replace(r.vocabulary, kind="bpe")),
        lambda r: replace(r, vocabulary=replace(r.vocabulary, character_coverage=0.99)),
        lambda r: replace(r, data=replace(r.data, source="de")),
    ],
    ids=["tags", "size", "kind", "coverage", "language"],
)
def test_bundle_does_not_have_the_vocabulary_of_a_recipe_that_describes_another(
    bundle: Bundle, change: Callable[[Recipe], Recipe]
) -> None:
    def has_both(recipe: Recipe) -> bool:
        pretrained = PretrainedBundle(from_first(), bundle)
        return pretrained.has_directions_of(recipe) and pretrained.has_vocabulary_of(recipe)

    assert has_both(from_first())
    assert not has_both(change(from_first()))


def test_bundle_with_the_same_pieces_in_two_tokenizers_gives_either_vocabulary(
    bundle: Bundle, tmp_path: Path
) -> None:
    files = {name: bundle.path / name for name in bundle.manifest.files}
    tokenizer = files.pop("tokenizer.model")
    files |= {"source.model": tokenizer, "target.model": tokenizer}
    imported = PretrainedBundle(
        from_first(), Bundle.write(tmp_path / "imported", bundle.manifest, files)
    )
    assert imported.allows_sharing(True) and imported.allows_sharing(False)
    # One tokenizer cannot be copied from two. The pieces are transferred instead.
    assert not imported.has_vocabulary_of(from_first())
    assert not PretrainedBundle(from_first(), bundle).allows_sharing(False)


def test_pieces_are_transferred_to_another_vocabulary(bundle: Bundle, tmp_path: Path) -> None:
    recipe = from_first()
    recipe = replace(recipe, vocabulary=replace(recipe.vocabulary, kind="bpe", size=26))
    run = prepared_from(recipe, bundle, tmp_path)
    trainer = begun(recipe, run, bundle)
    found, expected = trainer.network.target_embedding.tokens.weight, read_network(bundle)[1]
    old, new = bundle.tokenizers().target, run.tokenizers().target
    assert new.vocabulary_size == 26 != old.vocabulary_size
    for piece in ("▁1", "▁X", "</s>"):
        row = expected["target_embedding.tokens.weight"][old.id_of(piece)]
        assert torch.equal(found[new.id_of(piece)], row)


@pytest.mark.parametrize(
    "changes",
    [
        {"norm": "before"},
        {"positions": "learned"},
        {"tying": "decoder"},
        {"width": 24, "activation": "gelu"},
        {"max_length": 20, "output_bias": True},
    ],
)
def test_network_that_differs_from_the_bundles_is_refused_by_name(
    bundle: Bundle, tmp_path: Path, changes: dict[str, object]
) -> None:
    recipe = with_network(from_first(), **changes)
    with pytest.raises(InvalidRecipe) as refused:
        begun(recipe, prepared_from(recipe, bundle, tmp_path), bundle)
    assert all(name in str(refused.value) for name in changes)


def test_decoder_with_ssru_takes_all_but_self_attention_from_the_bundle(
    places: tuple[Bundle, Transformer], tmp_path: Path
) -> None:
    bundle, network = places
    recipe = with_network(from_first(), decoder="ssru")
    trainer = begun(recipe, prepared_from(recipe, bundle, tmp_path), bundle)
    weights, old = trainer.network.state_dict(), network.state_dict()
    fresh = build(trainer.network.config, recipe.seed).state_dict()
    for name, weight in weights.items():
        assert torch.equal(weight, old[name] if name in old else fresh[name]), name
    assert {name.split(".")[2] for name in weights.keys() - old.keys()} == {
        "recurrence",
        "recurrence_residual",
    }


def test_recipe_that_grows_a_bundle_begins_with_a_larger_network_of_equal_output(
    tmp_path: Path,
) -> None:
    first = with_network(replace(tiny_recipe(), name="first"), norm="before")
    bundle, network = published(tmp_path, first)
    larger = {"norm": "before", "positions": "learned", "width": 24, "heads": 3}
    recipe = with_network(from_first(grow=True), **larger, encoder_layers=2)
    trainer = begun(recipe, prepared_from(recipe, bundle, tmp_path), bundle)
    ids = torch.tensor([[4, 5, 6, 3]]), torch.tensor([[2, 7, 8]])
    with torch.inference_mode():
        expected = network(*ids)
        torch.testing.assert_close(trainer.network.eval()(*ids), expected, atol=1e-4, rtol=1e-4)

    other = with_network(recipe, heads=2)
    with pytest.raises(InvalidRecipe, match="heads are 8 wide, not 12"):
        begun(other, prepared_from(other, bundle, tmp_path), bundle)


def test_run_beside_is_preferred_to_a_bundle_of_the_same_name(
    bundle: Bundle, tmp_path: Path
) -> None:
    run, bundles = RunDirectory(tmp_path / "second"), bundle.path.parent
    assert isinstance(find_pretrained(from_first(), run, bundles), PretrainedBundle)
    (tmp_path / "first").mkdir()
    with pytest.raises(InvalidRecipe, match="not been prepared"):
        find_pretrained(from_first(), run, bundles)
    RunDirectory(tmp_path / "first").data.mkdir()
    RunDirectory(tmp_path / "first").recipe.touch()
    assert isinstance(find_pretrained(from_first(), run, bundles), PretrainedRun)
    # A bundle in the directory of runs is still a bundle.
    assert isinstance(
        find_pretrained(from_first(), RunDirectory(bundles / "second"), bundles), PretrainedBundle
    )


def test_bundle_replaced_since_prepare_is_refused(bundle: Bundle, tmp_path: Path) -> None:
    recipe = from_first()
    run = prepared_from(recipe, bundle, tmp_path)
    report = json.loads(run.report.read_text(encoding="utf-8"))
    assert report["initial"]["version"] == bundle.manifest.version
    report["initial"]["version"] = "older"
    run.report.write_text(json.dumps(report), encoding="utf-8")
    with pytest.raises(InvalidRecipe, match="another version"):
        begun(recipe, run, bundle)


def test_provenance_names_the_corpora_of_the_bundle(bundle: Bundle, tmp_path: Path) -> None:
    same = from_first()
    other = replace(with_corpus(same, "more"), name="third")
    found = [
        [(corpus.name, corpus.licence) for corpus in data_of(recipe, run)]
        for recipe in (same, other)
        for run in [prepared_from(recipe, bundle, tmp_path)]
    ]
    assert found == [
        [("train", "CC0-1.0")],
        [("more", "CC0-1.0"), ("train, in first", "CC0-1.0")],
    ]


def test_commands_find_the_bundle_once_and_resume_without_it(
    bundle: Bundle, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = with_budget(from_first(), steps=2, validate_every=1)
    file = tmp_path / "second.json"
    file.write_text(json.dumps(recipe.to_dict()), encoding="utf-8")
    bundles = tmp_path / "bundles"
    shutil.copytree(bundle.path.parent, bundles)
    places = [f"--runs={tmp_path}", f"--bundles={bundles}", f"--data={tmp_path}", "--device=cpu"]
    assert main(["prepare", str(file), *places]) == 0
    assert main(["train", str(file), "--steps=1", *places]) == 0
    shutil.rmtree(bundles)
    assert main(["train", str(file), *places]) == 0, capsys.readouterr().err
    assert main(["prepare", str(file), *places]) == 2
    assert "no bundle" in capsys.readouterr().err


OLD_TEXT = ["the dog runs", "a dog and a cat", "the cat sleeps", "dogs run", "cats sleep"] * 20
NEW_TEXT = ["dogs sleep in the catalogue", "a café and a dog", "the cat runs and sleeps"] * 20


@pytest.fixture
def old(tmp_path: Path) -> Tokenizer:
    return train_tokenizer(OLD_TEXT, tmp_path / "old.model", vocabulary_size=22)


@pytest.fixture
def new(tmp_path: Path) -> Tokenizer:
    return train_tokenizer(
        NEW_TEXT, tmp_path / "new.model", vocabulary_size=28, control_symbols=["<2de>"]
    )


def test_a_vocabulary_brought_over_to_itself_stays_as_it_is(old: Tokenizer) -> None:
    assert rows_for(old, old) == [[id] for id in range(old.vocabulary_size)]


def test_piece_starts_from_its_old_row_or_from_rows_of_pieces_that_spell_it(
    old: Tokenizer, new: Tokenizer
) -> None:
    known = old.pieces(range(old.vocabulary_size))
    rows = rows_for(new, old)
    for piece, ids in zip(new.pieces(range(new.vocabulary_size)), rows, strict=True):
        if piece in known:
            assert [known[id] for id in ids] == [piece]
        elif not set(piece) - set("".join(known)):
            assert "".join(known[id] for id in ids) == piece
            assert len(ids) > 1
        else:
            assert SPECIAL_IDS.unk in ids
    assert {1, 3} < {len(ids) for ids in rows}


@pytest.mark.parametrize("tying", ["all", "none"])
def test_text_of_shared_pieces_has_unchanged_logits(
    old: Tokenizer, new: Tokenizer, tying: Literal["all", "none"]
) -> None:
    config = replace(CONFIG, tying=tying, output_bias=tying == "none")
    before = build(sized(config, old.vocabulary_size), seed=1)
    after = build(sized(config, new.vocabulary_size), seed=2)
    if tying == "none":
        torch.nn.init.normal_(before.generator.bias)
    after.load_state_dict(
        with_pieces_of(Tokenizers(new, new), Tokenizers(old, old), before.state_dict())
    )

    both = [(ids[0], id) for id, ids in enumerate(rows_for(new, old)) if len(ids) == 1 and id >= 4]
    old_ids, new_ids = (torch.tensor(ids) for ids in zip(*both, strict=True))
    with torch.inference_mode():
        old_logits = before.eval()(old_ids[None, :8], old_ids[None, 4:10])
        new_logits = after.eval()(new_ids[None, :8], new_ids[None, 4:10])
    torch.testing.assert_close(new_logits[..., new_ids], old_logits[..., old_ids])


def sized(config: TransformerConfig, size: int) -> TransformerConfig:
    return replace(config, source_vocabulary=size, target_vocabulary=size)


def prepared_run(directory: Path, recipe: Recipe, kept: dict[str, int]) -> RunDirectory:
    run = RunDirectory(directory / recipe.name)
    run.path.mkdir()
    run.recipe.write_text(json.dumps(recipe.to_dict()), encoding="utf-8")
    train = {label: {"kept": pairs} for label, pairs in kept.items()}
    run.report.write_text(json.dumps({"train": train}), encoding="utf-8")
    return run


def trained_on(recipe: Recipe, *names: str, **changes: str) -> Recipe:
    corpora = tuple(Corpus(name=name, licence=f"of {name}") for name in names)
    return replace(recipe, data=replace(recipe.data, train=corpora), **changes)  # type: ignore[arg-type]


def test_corpora_of_initial_runs_are_listed_with_licences(tmp_path: Path) -> None:
    captions = trained_on(recipe_named("multi30k-de-en"), "captions", "dropped", name="first")
    prepared_run(tmp_path, captions, {"captions": 7, "dropped": 0})
    more = trained_on(captions, "captions", "news", name="second", initial="first")
    assert names(more, prepared_run(tmp_path, more, {"captions": 7, "news": 5})) == [
        ("captions", "of captions", 7),
        ("news", "of news", 5),
    ]
    other = trained_on(captions, "talks", name="third", initial="second")
    assert names(other, prepared_run(tmp_path, other, {"talks": 3})) == [
        ("talks", "of talks", 3),
        ("captions, in second", "of captions", 7),
        ("news, in second", "of news", 5),
    ]
    last = trained_on(captions, "news", name="fourth", initial="third")
    assert names(last, prepared_run(tmp_path, last, {"news": 5})) == [
        ("news", "of news", 5),
        ("talks, in third", "of talks", 3),
        ("captions, in second", "of captions", 7),
        ("news, in second", "of news", 5),
    ]


def test_corpus_in_other_languages_is_listed_separately(tmp_path: Path) -> None:
    german = trained_on(recipe_named("multi30k-de-en"), "captions", name="german")
    prepared_run(tmp_path, german, {"captions": 7})
    french = replace(german, name="french", initial="german")
    french = replace(french, data=replace(french.data, source="fr"))
    assert names(french, prepared_run(tmp_path, french, {"captions": 6})) == [
        ("captions", "of captions", 6),
        ("captions, in german", "of captions", 7),
    ]


def names(recipe: Recipe, run: RunDirectory) -> list[tuple[str, str, int]]:
    return [(corpus.name, corpus.licence, corpus.pairs) for corpus in data_of(recipe, run)]
