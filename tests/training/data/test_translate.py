from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.networks import random_network, write_bundle
from tests.support.tiny_training import tiny_recipe
from training.cli import main
from training.commands.distill import distilled
from training.data.bundle_translator import TranslationFailed, translate_file
from training.data.corpus import CorpusError, read_lines
from training.data.prepare import prepare
from training.data.shards import Shards
from training.data.translate import NoTranslator, translate_corpora
from training.recipe import Corpus, InvalidRecipe, Recipe, Vocabulary
from training.recipe_file import read_recipe
from training.recipes import recipe_named
from training.run_directory import RunDirectory

FOUND = Corpus(name="captions", licence="CC0-1.0")
BACK = replace(FOUND, translated="source", translator="tiny-en-de")
"""German back-translated from English, in a recipe from German to English."""


def recipe_on(*corpora: Corpus, bidirectional: bool = False) -> Recipe:
    tiny = tiny_recipe()
    held = Corpus(name="held", licence="CC0-1.0")
    data = replace(
        tiny.data,
        source="de",
        target="en",
        train=corpora,
        valid=held,
        test=held,
        bidirectional=bidirectional,
    )
    return replace(tiny, data=data, vocabulary=Vocabulary(size=200, kind="word"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    directory.mkdir()
    for language, lines in {
        "en": "A man is walking.\nA dog.\nTwo dogs.\n",
        "de": "Ein Mann geht.\nEin Hund.\nZwei Hunde.\n",
    }.items():
        for name in ("captions", "held"):
            (directory / f"{name}.{language}").write_text(lines, encoding="utf-8")
    return directory


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of each direction."""
    directory = tmp_path_factory.mktemp("bundles")
    for source, target in (("de", "en"), ("en", "de")):
        name = f"tiny-{source}-{target}"
        write_bundle(
            random_network(), directory / name, ("fp32",), name=name, source=source, target=target
        )
    return directory


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "runs" / "tiny")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str, str]]:
    """Replaces the service by one that reverses every line; returns the calls."""
    calls: list[tuple[str, str, str, str]] = []

    def translate(
        bundle: Path, source: str, target: str, input: Path, output: Path, **_: object
    ) -> None:
        calls.append((bundle.name, source, target, input.name))
        output.write_bytes(
            gzip.compress("".join(f"{line[::-1]}\n" for line in read_lines(input)).encode())
        )

    monkeypatch.setattr("training.data.translate.translate_file", translate)
    return calls


Asked = list[tuple[str, str, str, str]]


def test_side_on_disk_is_translated_into_the_other(
    data: Path, bundles: Path, run: RunDirectory, asked: Asked
) -> None:
    forth = replace(FOUND, translated="target", translator="tiny-de-en")
    made = translate_corpora(recipe_on(FOUND, BACK, forth), run, data, bundles)
    assert asked == [
        ("tiny-en-de", "en", "de", "captions.en"),
        ("tiny-de-en", "de", "en", "captions.de"),
    ]
    assert list(made) == [
        "captions, source by tiny-en-de",
        "captions, target by tiny-de-en",
    ]
    assert len({*made.values()}) == 2


def test_prepare_reads_translations_or_names_the_command(
    data: Path, bundles: Path, run: RunDirectory, asked: Asked
) -> None:
    recipe = recipe_on(FOUND, BACK)
    with pytest.raises(CorpusError, match="into de by tiny-en-de; run `python -m training tr"):
        prepare(recipe, run, data)
    translate_corpora(recipe, run, data, bundles)
    report = prepare(recipe, run, data)
    assert report["train"]["captions, source by tiny-en-de"]["kept"] == 3
    shards, tokenizer = Shards.open(run.shards("train")), run.tokenizers().source
    assert tokenizer.decode(shards.source[3].tolist()) == ".gniklaw si nam A"
    assert tokenizer.decode(shards.target[3].tolist()) == "A man is walking."


@pytest.mark.parametrize("translator", ["missing", "tiny-de-en"])
def test_unusable_translator_is_refused_before_any_work(
    data: Path, bundles: Path, run: RunDirectory, asked: Asked, translator: str
) -> None:
    with pytest.raises(NoTranslator, match=translator):
        translate_corpora(recipe_on(BACK, replace(BACK, translator=translator)), run, data, bundles)
    assert asked == []


def test_distilled_recipe_trains_on_the_teachers_translations() -> None:
    student = distilled(recipe_on(FOUND), "teacher", "student")
    assert student.name == "student"
    assert student.data.train == (replace(FOUND, translated="target", translator="teacher"),)
    assert (student.data.valid, student.data.test) == (recipe_on(FOUND).data.valid,) * 2
    both = distilled(recipe_on(FOUND, bidirectional=True), "teacher", "student")
    assert [both.data.directions_of(corpus) for corpus in both.data.train] == [
        (("de", "en"),),
        (("en", "de"),),
    ]
    for name in ("student", "general-de-en", "multi", "multi30k-de-en-bidirectional"):
        recipe = recipe_named(name)
        data = distilled(recipe, "teacher", "other").data
        assert data.directions == recipe.data.directions
        assert all(corpus.translated == "target" for corpus in data.train)
    # Neither generated nor back-translated text is distilled.
    for recipe in (tiny_recipe(), recipe_on(FOUND, BACK)):
        with pytest.raises(InvalidRecipe, match=r"'(train|captions)'"):
            distilled(recipe, "teacher", "student")


def test_distill_performs_all_hops_and_saves_the_recipe(
    data: Path, bundles: Path, tmp_path: Path, asked: Asked, taken: Callable[..., list[str]]
) -> None:
    hops = ("train", "average", "evaluate", "shortlist", "export")
    performed = taken(*hops)
    places = [f"--data={data}", f"--runs={tmp_path / 'runs'}", f"--bundles={bundles}"]
    command = ["distill", "multi30k-de-en", "--reduced", "--corpus", "captions"]
    command += ["--set", "data.valid.name=held", "--set", "vocabulary.size=40", *places]
    command += ["--set", "vocabulary.kind=word"]
    assert main([*command, "--teacher", "tiny-de-en", "--name", "student"]) == 0
    assert asked == [("tiny-de-en", "de", "en", "captions.de")]
    assert performed == [*hops]
    run = RunDirectory(tmp_path / "runs" / "student")
    recipe = read_recipe(run.derived)
    assert recipe.data.train[0].translator == str(bundles / "tiny-de-en")
    assert recipe.vocabulary.size == 40
    shutil.rmtree(data)
    taken("prepare")
    assert main([*command, "--teacher", "tiny-de-en", "--name", "student"]) == 2
    assert main([*command, "--teacher", "tiny-de-en", "--name", "multi30k-de-en"]) == 2


def test_translation_is_repeated_if_the_source_or_program_changes_unless_the_run_is_trained(
    data: Path, bundles: Path, run: RunDirectory, asked: Asked
) -> None:
    def translated() -> Path:
        (output,) = translate_corpora(recipe_on(BACK), run, data, bundles).values()
        return output

    translated()
    (data / "captions.en").write_text("Another text.\n", encoding="utf-8")
    output = translated()
    assert translated() == output
    assert len(asked) == 2
    assert list(read_lines(output)) == [".txet rehtonA"]
    output.with_name(f"{output.name}.json").write_text('{"version": "another"}', encoding="utf-8")
    checkpoint = run.path / "checkpoint-00000004.pt"
    checkpoint.touch()
    translated()
    assert len(asked) == 2
    checkpoint.unlink()
    translated()
    assert len(asked) == 3


def test_file_is_translated_line_by_line_with_the_given_bundle(
    bundles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output, bundle = tmp_path / "in.tsv.gz", tmp_path / "out.txt", bundles / "tiny-de-en"
    source.write_bytes(gzip.compress(b"w1 w2\n\nw3 w4 w5\n"))
    translate_file(bundle, "de", "en", source, output, beam_size=2, threads=1)
    first, empty, last = output.read_text(encoding="utf-8").splitlines()
    assert first and last and not empty
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.tsv.gz", "out.txt"]
    source.write_bytes(b"damaged")
    with pytest.raises(TranslationFailed, match=f"{bundle} .* {source} "):
        translate_file(bundle, "de", "en", source, tmp_path / "other.txt", threads=1)
    assert "is not gzip" in capsys.readouterr().err
    with pytest.raises(TranslationFailed, match="missing"):
        translate_file(tmp_path / "missing", "de", "en", tmp_path / "in", tmp_path / "out")
