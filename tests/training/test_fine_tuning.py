from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from models.bundle.bundle import Bundle
from models.importing.importing import import_model
from tests.support.checkpoints import sentences, write_marian
from tests.support.firefox import SIZES, write_firefox
from training import checkpoint
from training.averaged import averaged_network, interpolated
from training.cli import main
from training.data.corpus import CorpusError, Pair, read_lines
from training.evaluation.comparison import Compared
from training.evaluation.document import Comparison, Section
from training.fine_tuning import (
    GENERAL,
    OWN,
    Divided,
    direction_from,
    divide,
    recipe_for,
    sample_general,
)
from training.initial.bundle_weights import read_network
from training.recipe import InvalidRecipe
from training.recipe_file import read_recipe
from training.run_directory import RunDirectory

BUNDLES = Path(__file__).parents[2] / "bundles"
COMMITTED = BUNDLES / "general-de-en"
PAIRS = [Pair(f"Satz {number}.", f"Sentence {number}.") for number in range(1_000)]


def lines_of(path: Path) -> list[str]:
    return list(read_lines(path))


def test_parts_are_disjoint_in_their_sources_and_the_same_each_time(tmp_path: Path) -> None:
    again = [*PAIRS, *(Pair(pair.source, "Another.") for pair in PAIRS[:200])]
    divided = divide(again, tmp_path / "a", "de", "en")
    parts = {part: lines_of(tmp_path / "a" / f"{part}.de") for part in ("train", "valid", "test")}
    assert [len(part) for part in parts.values()] == [divided.train, divided.valid, divided.test]
    assert divided.train + divided.valid + divided.test == 1_200
    assert 150 < divided.test < 350 and 60 < divided.valid < 180
    assert not set(parts["train"]) & set(parts["test"])
    assert not set(parts["train"]) & set(parts["valid"])
    with pytest.raises(CorpusError, match="at least 50"):
        divide(PAIRS[:49], tmp_path, "de", "en")
    assert divide(reversed(again), tmp_path / "b", "de", "en").test == divided.test
    assert sorted(lines_of(tmp_path / "b" / "test.en")) == sorted(
        lines_of(tmp_path / "a" / "test.en")
    )


def test_general_text_is_sampled_and_tested_apart(tmp_path: Path) -> None:
    held_out = sample_general([PAIRS[:300], PAIRS[300:]], [], 100, tmp_path / "a", "de", "en")
    assert held_out is not None
    assert (held_out.train, held_out.test) == (100, 500)
    train, test = (set(lines_of(tmp_path / "a" / f"{part}.de")) for part in ("train", "test"))
    assert not train & test
    given = sample_general([PAIRS], [PAIRS[:5]], 100, tmp_path / "b", "de", "en")
    assert given is not None and (given.train, given.test) == (100, 5)
    assert sample_general([[]], [], 100, tmp_path / "c", "de", "en") is None


def test_the_recipe_has_the_network_and_vocabulary_of_the_bundle() -> None:
    own = Divided(train=1_000, valid=100, test=200, words=20_000)
    recipe = recipe_for("mine", Bundle.open(COMMITTED), ("de", "en"), own, own)
    assert (recipe.network.width, recipe.network.encoder_layers) == (320, 8)
    assert recipe.vocabulary.inherited
    assert recipe.budget.steps == 80  # 1.25 epochs of 64 batches
    assert recipe.data.held_out == ("own/test", "own/valid", "general/test")
    alone = recipe_for("mine", Bundle.open(COMMITTED), ("de", "en"), own, None, steps=20)
    assert (alone.budget.steps, alone.optimisation.warmup) == (20, 2)
    assert (alone.budget.validate_every, alone.budget.save_every) == (5, 2)
    assert [corpus.name for corpus in alone.data.train] == ["own/train"]
    with pytest.raises(InvalidRecipe, match="a bundle is fine-tuned if"):
        recipe_for("mine", Bundle.open(COMMITTED), ("de", "fr"), own, own)
    bundle = Bundle.open(COMMITTED)
    endless = [d.model_copy(update={"source_eos": False}) for d in bundle.manifest.directions]
    manifest = bundle.manifest.model_copy(update={"directions": tuple(endless)})
    with pytest.raises(InvalidRecipe, match="without a token at their end"):
        recipe_for("mine", replace(bundle, manifest=manifest), ("de", "en"), own, own)


@pytest.mark.slow
@pytest.mark.usefixtures("few_samples")
@pytest.mark.parametrize("separate", [False, True], ids=["shared rows", "two vocabularies"])
def test_imported_bundle_with_two_tokenizers_is_fine_tuned(separate: bool, tmp_path: Path) -> None:
    checkpoint = tmp_path / "opus"
    write_marian(checkpoint, separate=separate, encoder_layers=1, decoder_layers=1)
    bundles = tmp_path / "bundles"
    memory = tmp_path / "memory.tsv"
    sides = (sentences(side, 80, seed=3) for side in ("source", "target"))
    memory.write_text("".join(f"{a}\t{b}\n" for a, b in zip(*sides, strict=True)))
    (tmp_path / "texts.de").write_text("\n".join(sentences("source", 12, seed=9)))
    old, _ = import_model(checkpoint, bundles, texts=[(None, tmp_path / "texts.de")])
    command = ["fine-tune", old.manifest.name, f"--data={memory}", "-o", "mine", "--no-general"]
    command += ["--steps=4", "--threads=1", f"--bundles={bundles}", f"--runs={tmp_path / 'runs'}"]
    assert main([*command, "--set=name=yours"]) == 2
    assert main([*command, "--set=optimisation.warmup=2"]) == 0
    derived = json.loads((tmp_path / "runs" / "mine" / "derived.json").read_text())
    assert (derived["optimisation"]["warmup"], derived["budget"]["steps"]) == (2, 4)
    new = Bundle.open(bundles / "mine")
    for name in ("source.model", "target.model"):
        assert (new.path / name).read_bytes() == (old.path / name).read_bytes()
    before, after = (read_network(each)[1] for each in (old, new))
    assert before.keys() == after.keys()
    assert not torch.equal(before["generator.weight"], after["generator.weight"])


@pytest.mark.slow
@pytest.mark.usefixtures("few_samples")
def test_model_of_firefox_is_fine_tuned_and_keeps_its_alignments(tmp_path: Path) -> None:
    written = write_firefox(tmp_path / "model", SIZES["small"], shared=False)
    own, other = written.words
    rng = random.Random(3)
    chosen = [rng.choices(range(len(own)), k=rng.randint(3, 8)) for _ in range(80)]
    pairs = (" ".join(own[i] for i in c) + "\t" + " ".join(other[i] for i in c) for c in chosen)
    (tmp_path / "memory.tsv").write_text("\n".join(pairs), encoding="utf-8")
    bundles = tmp_path / "bundles"
    old, _ = import_model(written.model.parent, bundles)
    command = ["fine-tune", old.manifest.name, f"--data={tmp_path / 'memory.tsv'}", "-o", "mine"]
    command += ["--steps=4", "--threads=1", f"--bundles={bundles}", f"--runs={tmp_path / 'runs'}"]
    assert main([*command, "--no-general"]) == 0
    new = Bundle.open(bundles / "mine")
    assert new.manifest.alignment == old.manifest.alignment is not None
    (before, weights), (after, changed) = (read_network(each) for each in (old, new))
    assert (before.decoder, before.norm_epsilon) == ("ssru", 1e-6)
    assert before == after
    gates = [each["decoder.0.recurrence.gate.weight"] for each in (weights, changed)]
    assert not torch.equal(*gates)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (partial(write_marian, tags=(">>eng<<",)), "selects its languages by tokens"),
        (partial(write_marian, scale_embedding=False), r"\(scaled_embeddings=False\)"),
    ],
)
def test_imported_bundle_that_cannot_be_trained_is_refused_before_any_work(
    write: Callable[..., object],
    reason: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(tmp_path / "opus", encoder_layers=1, decoder_layers=1)
    old, _ = import_model(tmp_path / "opus", tmp_path / "bundles")
    command = ["fine-tune", str(old.path), "--data=unread.tsv", "-o", "mine"]
    assert main([*command, f"--runs={tmp_path / 'runs'}"]) == 2
    assert re.search(reason, capsys.readouterr().err)
    assert not (tmp_path / "runs").exists()


def test_refused_commands_leave_no_run(tmp_path: Path) -> None:
    few = tmp_path / "few.tsv"
    few.write_text("de\ten\n" + "Ein Satz.\tA sentence.\n" * 9)
    runs = tmp_path / "runs"
    places = [f"--runs={runs}", f"--bundles={BUNDLES}"]
    assert main(["fine-tune", "general-de-en", f"--data={few}", "-o", "mine", *places]) == 2
    teacher = ["--teacher", "general-de-en", f"--data={tmp_path}"]
    assert main(["distill", "multi30k-de-en", *teacher, *places]) == 2
    assert list(runs.iterdir()) == []


@pytest.mark.parametrize(
    ("source", "direction"),
    [
        (None, ("de", "en")),
        ("de", ("de", "en")),
        ("en", ("en", "de")),
        ("en-US", ("en", "de")),
        ("DEU", ("de", "en")),
    ],
)
def test_direction_is_the_first_or_the_one_from_the_given_language(
    source: str | None, direction: tuple[str, str]
) -> None:
    assert direction_from(Bundle.open(COMMITTED), source) == direction


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    path = tmp_path / "memory.tsv"
    rows = [f"{pair.source}\t{pair.target}\n" for pair in [*PAIRS[:100], PAIRS[0]]]
    path.write_text("".join(rows), encoding="utf-8")
    return path


def section(test_set: str, baseline: float, system: float) -> Section:
    """A report's section with a significant difference."""
    bleu = Compared("BLEU", baseline, system, system - baseline, 0.01, 0.02, "", "")
    comparison = Comparison("general-de-en", "mine", 9, (bleu,))
    return Section(test_set, test_set, "de", "en", 10, (), (comparison,), ())


def test_the_command_performs_all_hops_and_compares_both_bundles_in_every_direction(
    memory: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    taken: Callable[..., list[str]],
) -> None:
    compared: list[object] = []
    performed = taken("train", "average", "evaluate", "export")
    monkeypatch.setattr(
        "training.commands.report.written",
        lambda options: (
            compared.extend([options.systems, options.test, (options.source, options.target)])
            or [section(f"{OWN}/test", 20, 18), section(f"{GENERAL}/test", 22.2, 21.5)]
        ),
    )
    corpora = tmp_path / "corpora"
    (corpora / "tatoeba").mkdir(parents=True)
    for part, pairs in (("train", PAIRS[200:]), ("test", PAIRS[100:200])):
        for side, language in enumerate(("de", "en")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (corpora / "tatoeba" / f"{part}.{language}").write_text(text, encoding="utf-8")
    command = ["fine-tune", "general-de-en", f"--data={memory}", "-o", "mine"]
    command += [f"--corpora={corpora}", f"--runs={tmp_path / 'runs'}", f"--bundles={BUNDLES}"]
    assert main(command) == 0
    assert performed == ["train", "average", "evaluate", "export"]
    assert compared == [
        [str(COMMITTED), str(BUNDLES / "mine")],
        [f"{OWN}/test", f"{GENERAL}/test"],
        # Every direction of the bundle.
        (None, None),
    ]
    said = capsys.readouterr().out
    assert f"{memory}: 101 units, left out: 1 duplicate\n" in said
    assert "general text: 800 pairs, and 100 to test" in said
    assert said.count("worse than") == 1
    worse = "on general text, de to en, BLEU 21.5 instead of 22.2: the same command with"
    assert f"worse than general-de-en {worse} --strength 0.25" in said
    run = RunDirectory(tmp_path / "runs" / "mine")
    assert run.shards("train").is_dir()
    assert (run.path / "tokenizer.model").read_bytes() == (
        COMMITTED / "tokenizer.model"
    ).read_bytes()
    derived = read_recipe(run.derived)
    assert (derived.initial, derived.strength) == (str(COMMITTED), 0.5)


def test_without_general_text_the_command_says_what_may_be_forgotten(
    memory: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    taken: Callable[..., list[str]],
) -> None:
    taken("prepare", "train", "average", "evaluate", "export")
    monkeypatch.setattr("training.commands.report.written", lambda _: [])
    command = ["fine-tune", str(COMMITTED), f"--data={memory}", "-o", "mine"]
    command += [f"--runs={tmp_path / 'runs'}", f"--corpora={tmp_path}"]
    assert main(command) == 0
    assert "no general text: the model may forget other subjects" in capsys.readouterr().out


REFUSED = {
    f"-o=general-de-en --bundles={BUNDLES}": "choose another name",
    "-o=mine --bundles=taken": "choose another name",
    **{f"-o={name}": "no name of a recipe" for name in ("Mine", "../esc", "a/b", "", "mine\n")},
    **{f"-o=mine --from={source}": "--from" for source in ("fr", "x", "de-DE-x-a")},
    **{f"-o=mine --steps={steps}": "--steps" for steps in (0, -5)},
    **{f"-o=mine --strength={share}": "no share" for share in (0, 1.5, "nan")},
}
"""Options, and what their refusal names."""


@pytest.mark.parametrize("options", REFUSED)
def test_invalid_options_are_refused_before_any_work(
    options: str,
    memory: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken" / "mine").mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    command = ["fine-tune", str(COMMITTED), f"--data={memory}", *options.split(" ")]
    try:
        assert main(command) == 2
    except SystemExit as refused:
        assert refused.code == 2
    assert REFUSED[options] in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_averaged_weights_move_towards_those_of_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunDirectory(tmp_path)
    own = Divided(train=1_000, valid=100, test=200, words=20_000)
    recipe = recipe_for("mine", Bundle.open(COMMITTED), ("de", "en"), own, None, strength=0.75)
    monkeypatch.setattr("training.checkpoint.restore", lambda document: None)
    initial = {"a": torch.tensor([0.0])}
    monkeypatch.setattr("training.averaged.initial_weights", lambda *arguments: initial)
    document = {"network": {"a": torch.tensor([4.0])}, "last": "b"}
    mixed = interpolated(document, recipe, run, tmp_path)
    assert mixed["network"]["a"].item() == 3.0 and mixed["last"] == "b"
    assert interpolated(document, replace(recipe, strength=1.0), run, tmp_path) is document
    # The hops that follow notice an average of another strength.
    checkpoint.save(mixed, run.averaged)
    with pytest.raises(checkpoint.CheckpointError, match="training average"):
        averaged_network(run, strength=1.0)
    with pytest.raises(InvalidRecipe, match="initial"):
        replace(recipe, initial=None)
