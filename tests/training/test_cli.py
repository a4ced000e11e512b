from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from models.bundle.bundle import SHORTLIST, Bundle, sha256_of
from models.bundle.manifest import Precision
from models.bundle.shortlist import Shortlist
from models.export.builder import WeightFile
from models.export.weights import collect_weights
from tests.support.programs import ROOT, python
from tests.support.raising import FULL, raiser
from tests.support.tiny_training import VOCABULARY_SIZE, tiny_recipe
from tests.support.waiting import wait_until
from training import checkpoint
from training.cli import COMMANDS, main
from training.commands import translate
from training.commands.options import PRECISIONS
from training.commands.run import HOPS
from training.recipes import RECIPES
from training.run_directory import RunDirectory

Command = Callable[..., int]
HELD = {"name": "held", "licence": "CC0-1.0"}

pytestmark = pytest.mark.usefixtures("few_samples")


@pytest.fixture
def training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """``python -m training`` with the tiny recipe, in a directory of its own."""
    monkeypatch.setitem(RECIPES, "tiny", tiny_recipe)
    (tmp_path / "data").mkdir()

    def run(*arguments: str) -> int:
        places = [f"--{place}={tmp_path / place}" for place in ("data", "runs", "bundles")]
        return main([*arguments, *places])

    return run


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "runs" / "tiny")


def test_every_hop_can_be_taken_alone(
    training: Command, run: RunDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = run.path.parents[1] / "bundles" / "tiny"
    assert training("prepare", "tiny") == 0
    assert "200 of 200 pairs" in one_line(capsys)
    for options, steps in ((("--steps", "5"), 5), ((), 8)):
        assert training("train", "tiny", *options) == 0
        assert f"for {steps} steps" in one_line(capsys)
    for options, done in (
        (("--best",), r"took step \d, which validated best"),
        (("--set", "average_of=best"), r"averaged steps \d, \d, which validated best"),
        ((), "averaged steps 5, 8$"),
    ):
        assert training("average", "tiny", *options) == 0
        assert re.search(done, one_line(capsys))
    assert training("evaluate", "tiny") == 0
    assert one_line(capsys).startswith("test, x-digits→x-reversed: BLEU ")
    (scored,) = json.loads(run.scores.read_text(encoding="utf-8"))["directions"]
    assert scored["sentences"] == 5
    signatures = {each["metric"]: each["signature"] for each in scored["scores"]}
    assert "nrefs:1" in signatures["BLEU"] and "nc:6" in signatures["chrF"]
    assert len((run.path / "translations.txt").read_text(encoding="utf-8").splitlines()) == 5
    assert training("shortlist", "tiny", "--frequent", "0", "--per-source", "1") == 0
    assert str(run.shortlist) in one_line(capsys)
    assert Shortlist.load(run.shortlist).source_vocabulary_size == VOCABULARY_SIZE
    assert training("export", "tiny", "--precisions", "fp32", "int8") == 0
    proof, published, serve, curl, record = capsys.readouterr().out.splitlines()
    assert "5 sentences" in proof and "BLEU" in proof
    assert str(bundle) in published and "int8" in published
    assert serve.startswith("DRAGOMAN_BUNDLES=") and "--record" in record
    body = json.loads(shlex.split(curl)[-1])
    assert (body["source"], body["target"], body["model"]) == ("x-digits", "x-reversed", "tiny")
    manifest = Bundle.open(bundle).manifest
    assert manifest.precisions == ("fp32", "int8", "fp16")
    assert (manifest.decoding.beam_size, manifest.provenance.recipe) == (2, "tiny")
    assert [(corpus.name, corpus.pairs) for corpus in manifest.provenance.data] == [("train", 200)]


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The only line that a hop printed."""
    (line,) = capsys.readouterr().out.splitlines()
    return line


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["train", "huge"], "'huge'"),
        (["train", "tiny"], "training prepare RECIPE"),
        (["average", "tiny"], "training train RECIPE"),
        (["evaluate", "tiny"], "training average RECIPE"),
        (["shortlist", "tiny"], "training prepare RECIPE"),
        (["export", "tiny"], "training average RECIPE"),
        (["prepare", "multi30k-de-en"], "multi30k/train"),
        (["prepare", "tiny", "--set", "optimisation.warmups=1"], "optimisation.warmups"),
        (["prepare", "tiny", "--corpus", "mine"], "--reduced"),
        # The test set is missing.
        (["run", "tiny", "--set", f"data.test={json.dumps(HELD)}"], "'held'"),
    ],
)
def test_refusal_is_printed_in_one_line_and_leaves_no_run(
    training: Command,
    run: RunDirectory,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    named: str,
) -> None:
    assert training(*arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("training: ") and output.err.count("\n") == 1
    assert named in output.err
    assert not run.path.exists()


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    modules = {path.stem for path in (ROOT / "training" / "commands").glob("*.py")}
    assert {command.__name__.rpartition(".")[2] for command in COMMANDS} == modules - {
        "__init__",
        "options",
    }
    for module in sorted(modules - {"__init__", "options"}):
        name = module.replace("_", "-")
        with pytest.raises(SystemExit) as left:
            main([name, "--help"])
        assert left.value.code == 0
        assert f"python -m training {name}" in capsys.readouterr().out


def test_help_imports_no_heavy_distribution() -> None:
    program = (
        "import sys; from training.cli import COMMANDS, main\n"
        "for command in COMMANDS:\n"
        "    name = command.__name__.rpartition('.')[2].replace('_', '-')\n"
        "    try: main([name, '--help'])\n"
        "    except SystemExit: pass\n"
        "print('imported', *sorted({'torch', 'pydantic', 'matplotlib', 'onnx'} & {*sys.modules}))"
    )
    assert python("-c", program).splitlines()[-1] == "imported"


def test_precisions_of_the_command_line_are_those_of_bundles() -> None:
    assert get_args(Precision) == PRECISIONS


def test_shown_recipe_can_be_run_as_a_file(
    training: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", "tiny", "--set", "name=mine", "--set", "data.max_length=10"]) == 0
    mine = tmp_path / "mine.json"
    mine.write_text(capsys.readouterr().out, encoding="utf-8")
    assert training("prepare", str(mine)) == 0
    saved = RunDirectory(tmp_path / "runs" / "mine").recipe.read_text(encoding="utf-8")
    assert json.loads(saved) == json.loads(mine.read_text(encoding="utf-8"))


def test_new_recipe_of_ten_lines_is_prepared(
    training: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "mine", "--from", "x-digits", "--to", "x-reversed"]) == 0
    recipe = tmp_path / "mine.toml"
    recipe.write_text(capsys.readouterr().out, encoding="utf-8")
    # The card of a model must not describe another one.
    blank = tomllib.loads(recipe.read_text(encoding="utf-8"))
    assert (blank["description"], blank["effort"]) == ("", "")
    for split in ("train", "valid", "test"):
        for language in ("x-digits", "x-reversed"):
            side = tmp_path / "data" / "mine" / f"{split}.{language}"
            side.parent.mkdir(parents=True, exist_ok=True)
            side.write_text("".join(f"{i} 2 {split}\n" for i in range(9)), encoding="utf-8")
    assert training("prepare", str(recipe), "--set", "vocabulary.size=20") == 0
    assert "9 of 9 pairs" in one_line(capsys)


@pytest.mark.parametrize(
    ("name", "source", "named"),
    [
        ("My Model", "de", "'My Model'"),
        ('a"b', "de", "'a\"b'"),
        ("mine", 'd"e', "'d\"e'"),
        ("mine", "d\\e", "is not a language code"),
    ],
)
def test_new_recipe_with_an_impossible_name_or_language_is_refused(
    name: str, source: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", name, "--from", source, "--to", "en"]) == 2
    captured = capsys.readouterr()
    assert named in captured.err and not captured.out


@pytest.mark.parametrize("by_variable", [False, True])
def test_data_directory_of_the_option_or_the_variable_is_named_in_errors(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    by_variable: bool,
) -> None:
    data = tmp_path / "nowhere"
    if by_variable:
        monkeypatch.setenv("TRAINING_DATA", str(data))
    options = [] if by_variable else [f"--data={data}"]
    assert main(["prepare", "multi30k-de-en", f"--runs={tmp_path}", *options]) == 2
    assert f"no data directory {data}" in capsys.readouterr().err


def test_unknown_option_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["train", "tiny", "--step-size", "3"])
    assert left.value.code == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1 and "--step-size" in errors


@pytest.mark.parametrize("hop", [hop.__name__ for hop in HOPS if hop is not translate])
def test_full_disk_in_any_hop_is_reported_in_one_line(
    training: Command,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    hop: str,
) -> None:
    for each in HOPS:
        monkeypatch.setattr(f"{each.__name__}.perform", lambda options: None)
    monkeypatch.setattr(f"{hop}.perform", raiser(FULL))
    assert training("run", "tiny") == 2
    errors = capsys.readouterr().err
    assert " is full: " in errors and errors.count("\n") == 1


def test_full_disk_is_reported_for_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("training.figures.style.write", raiser(FULL))
    assert main(["figures", "masks", "--run", "some", "--run", "other", "-o", str(tmp_path)]) == 2
    assert " is full: " in capsys.readouterr().err


def test_changed_recipe_shards_or_tokenizer_and_unavailable_devices_are_refused(
    training: Command, run: RunDirectory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for hop in ("prepare", "train", "average"):
        assert training(hop, "tiny") == 0
    for name in ("gpu", "mps", "cuda:99"):
        assert training("train", "tiny", "--steps", "9", "--device", name) == 2
        assert f"--device '{name}'" in capsys.readouterr().err
    assert training("export", "tiny", "--set", "data.train.0.name=others") == 2
    errors = capsys.readouterr().err
    assert str(run.recipe) in errors and "others" in errors
    for others in (("--set", "data.train.0.licence=CC0", "--set", "data.test.pairs=7"), ()):
        for hop in ("prepare", "train", "evaluate"):
            assert training(hop, "tiny", *others) == 0
    for options in (("--set", "seed=9"), ()):
        for path in checkpoint.checkpoints(run.path):
            path.unlink()
        assert training("train", "tiny", *options) == 0
        assert training("evaluate", "tiny") == 2
        assert "averaged.pt was made before checkpoint-" in capsys.readouterr().err
        assert training("average", "tiny") == 0
    shard = run.shards("train") / "source.tokens"
    whole = shard.read_bytes()
    for damaged in (b"", whole[:-4], bytes([whole[0] ^ 1]) + whole[1:]):
        shard.write_bytes(damaged)
        assert training("train", "tiny", "--steps", "12") == 2
        assert f"{shard} is not as it was written" in capsys.readouterr().err
    shard.write_bytes(whole)
    report = json.loads(run.report.read_text(encoding="utf-8"))
    shard.write_bytes(damaged)
    other = {**report, "shards": {shard.name: sha256_of(shard)}}
    run.report.write_text(json.dumps(other), encoding="utf-8")
    assert training("train", "tiny", "--steps", "12") == 2
    assert "trained on other text" in capsys.readouterr().err
    run.tokenizer.write_bytes((ROOT / "bundles" / "general-de-en" / "tokenizer.model").read_bytes())
    for hop in ("evaluate", "export"):
        assert training(hop, "tiny") == 2
        assert "trained with another vocabulary" in capsys.readouterr().err
    assert not (tmp_path / "bundles").exists()


def test_second_run_skips_preparation(
    training: Command,
    run: RunDirectory,
    caplog: pytest.LogCaptureFixture,
    taken: Callable[..., list[str]],
) -> None:
    taken("train", "average", "evaluate", "shortlist", "export")
    assert training("run", "tiny") == 0
    assert "is prepared" not in caplog.text
    with caplog.at_level("INFO"):
        assert training("run", "tiny", "--set", "data.train.0.licence=CC0") == 0
    assert "is prepared" in caplog.text
    assert '"licence": "CC0"' in run.recipe.read_text(encoding="utf-8")


def test_bundle_that_fails_verification_is_not_published(
    training: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert training("run", "tiny") == 0
    published = (tmp_path / "bundles" / "tiny" / "manifest.json").read_bytes()

    def tampered(*arguments: object) -> WeightFile:
        weights = collect_weights(*arguments)  # type: ignore[arg-type]
        name = "decoder.0.feed_forward.inner.weight"
        weights.arrays[name] = np.flip(weights.arrays[name], 0)
        return weights

    monkeypatch.setattr("models.export.publication.collect_weights", tampered)
    capsys.readouterr()
    assert training("export", "tiny") == 2
    assert "fp32: scores differ from the network's" in capsys.readouterr().err
    (tmp_path / "runs" / "tiny" / SHORTLIST).write_bytes(b"damaged")
    assert training("export", "tiny") == 2
    assert "is not an npz archive" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "bundles").iterdir()] == ["tiny"]
    assert (tmp_path / "bundles" / "tiny" / "manifest.json").read_bytes() == published


def test_interrupted_run_prints_how_to_resume(
    training: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("training.commands.prepare.perform", raiser(KeyboardInterrupt()))
    assert training("run", "tiny") == 130
    errors = capsys.readouterr().err
    assert "interrupted; the same command goes on from the last checkpoint" in errors


def test_command_that_is_asked_to_end_prints_how_to_resume(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "training", "run", "reverse", f"--runs={tmp_path}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        wait_until((tmp_path / "reverse" / "lock").exists)
        process.terminate()
        errors = process.communicate()[1]
    # Python ends itself by SIGINT where the exception left code that ``exec`` runs from a string,
    # as the imports do: a shell shows both as 130.
    assert process.returncode in {130, -signal.SIGINT}
    assert "interrupted" in errors and "Traceback" not in errors


def test_closed_output_pipe_prints_no_error() -> None:
    command = f"{sys.executable} -m training recipes | head -n 1; echo ${{PIPESTATUS[0]}}"
    finished = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    first, code = finished.stdout.splitlines()
    assert first.startswith("reverse")
    assert code in {"0", "141"}
    assert finished.stderr == ""
