"""A fine-tuning command that is killed and repeated publishes the bundle of an unbroken one.

Every command is a process of its own, killed by SIGKILL at one of its hops.
"""

from __future__ import annotations

import random
import shutil
import signal
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest
import torch

from models.bundle import bundle as bundles
from models.bundle.bundle import Bundle, sha256_of
from models.transformer.transformer import build
from tests.support.dying import dying
from tests.support.tiny_training import prepared, tiny_recipe
from training import averaged, checkpoint
from training.cli import main
from training.commands import evaluate, export, prepare, report
from training.data import prepare as preparation
from training.export.export import export as publish

pytestmark = pytest.mark.slow

PATIENCE_SECONDS = 300.0
"""Longer than any command takes on a busy machine."""
FP32 = "--set=optimisation.precision=fp32"
"""The faster precision depends on what else the machine does."""
MOMENTS: dict[str, tuple[object, str, int]] = {
    "divided": (prepare, "perform", 1),
    "half prepared": (preparation, "_replace", 1),
    "training": (checkpoint, "prune", 1),
    "averaging": (averaged, "interpolated", 1),
    "averaged": (evaluate, "perform", 1),
    "evaluated": (export, "perform", 1),
    "publishing": (bundles, "_publish", 1),
    "published": (report, "written", 1),
}
"""Function and number of its call that is not entered, by moments of kills, in their order."""


def fine_tune(directory: Path, moment: str | None = None) -> None:
    torch.set_num_threads(1)
    if moment is not None:
        owner, name, number = MOMENTS[moment]
        setattr(owner, name, dying(getattr(owner, name), number))
    # The comparison reads both bundles and writes a page.
    else:
        report.written = lambda options: []
    command = ["fine-tune", "first", f"--data={directory.parent / 'memory.tsv'}", "-o", "mine"]
    command += [f"--bundles={directory / 'bundles'}", f"--runs={directory / 'runs'}"]
    raise SystemExit(main([*command, "--no-general", "--steps=10", "--threads=1", FP32]))


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of random weights, and a memory of reversed digits."""
    directory = tmp_path_factory.mktemp("places")
    recipe = tiny_recipe()
    run = prepared(directory / "gone", recipe)
    network = build(recipe.network.config(run.tokenizers().source.vocabulary_size), seed=5).eval()
    publish(recipe, run, network, directory / "published", directory, ("int8",))
    rng = random.Random(4)
    numbers = [rng.choices("0123456789", k=rng.randint(3, 8)) for _ in range(150)]
    memory = "".join(f"{' '.join(each)}\t{' '.join(reversed(each))}\n" for each in numbers)
    (directory / "memory.tsv").write_text(memory, encoding="utf-8")
    return directory


def run_derived(directory: Path) -> None:
    torch.set_num_threads(1)
    mine = directory / "runs" / "mine"
    shutil.rmtree(directory / "bundles" / "mine")
    command = ["run", str(mine / "derived.json"), f"--data={mine / 'corpora'}", "--threads=1"]
    command += [f"--bundles={directory / 'bundles'}", f"--runs={directory / 'runs'}"]
    raise SystemExit(main(command))


def finish(context: ForkServerContext, directory: Path, moment: str | None = None) -> int | None:
    process = context.Process(target=fine_tune, args=(directory, moment))
    process.start()
    process.join(PATIENCE_SECONDS)
    return process.exitcode


def begun(places: Path, name: str) -> Path:
    directory = places / name
    (directory / "bundles").mkdir(parents=True)
    (directory / "bundles" / "first").symlink_to(places / "published" / "tiny")
    return directory


@pytest.fixture(scope="module")
def unbroken(context: ForkServerContext, places: Path) -> str:
    """The version of the bundle, which its weights determine."""
    directory = begun(places, "unbroken")
    assert finish(context, directory) == 0
    manifest = Bundle.open(directory / "bundles" / "mine").manifest
    assert manifest.provenance.strength == 0.5
    return manifest.version


def test_killed_command_publishes_nothing_and_resumes_to_the_same_weights(
    context: ForkServerContext, places: Path, unbroken: str
) -> None:
    start = places / "published" / "tiny"
    before = {path.name: sha256_of(path) for path in start.iterdir()}
    directory = begun(places, "killed")
    mine = directory / "bundles" / "mine"
    for moment in MOMENTS:
        assert finish(context, directory, moment) == -signal.SIGKILL, moment
        assert mine.exists() == (moment == "published"), moment
    assert finish(context, directory) == 0
    assert Bundle.open(mine).manifest.version == unbroken
    assert {path.name: sha256_of(path) for path in start.iterdir()} == before


def test_run_of_the_derived_recipe_publishes_the_bundle_of_the_command(
    context: ForkServerContext, places: Path, unbroken: str
) -> None:
    process = context.Process(target=run_derived, args=(places / "unbroken",))
    process.start()
    process.join(PATIENCE_SECONDS)
    assert process.exitcode == 0
    mine = Bundle.open(places / "unbroken" / "bundles" / "mine")
    assert mine.manifest.version == unbroken
    assert mine.shortlist() is None
    assert mine.manifest.provenance.strength == 0.5


def test_another_memory_is_refused_and_changes_nothing(
    places: Path, unbroken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = places / "unbroken"
    before = {p: p.read_bytes() for p in (directory / "runs").rglob("*") if p.is_file()}
    other = directory / "other.tsv"
    other.write_text("".join(f"{n} {n + 1}\t{n + 1} {n}\n" for n in range(150)), "utf-8")
    command = ["fine-tune", "first", f"--data={other}", "-o", "mine", "--no-general"]
    command += [f"--bundles={directory / 'bundles'}", f"--runs={directory / 'runs'}"]
    assert main(command) == 2
    assert "has been trained on other text, and stays as it is" in capsys.readouterr().err
    command[2] = f"--data={places / 'memory.tsv'}"
    assert main([*command, "--steps=10", FP32, "--set=optimisation.peak_learning_rate=1"]) == 2
    assert "trained with another optimisation" in capsys.readouterr().err
    assert {p: p.read_bytes() for p in (directory / "runs").rglob("*") if p.is_file()} == before


def test_moved_project_goes_on_and_another_bundle_is_refused(
    places: Path, unbroken: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report, "written", lambda options: [])
    moved = places / "moved"
    shutil.copytree(places / "unbroken", moved)
    (places / "unbroken").rename(places / "away")
    (moved / "bundles" / "first").rename(moved / "bundles" / "tiny")
    command = ["fine-tune", "tiny", f"--data={places / 'memory.tsv'}", "-o", "mine"]
    command += [f"--bundles={moved / 'bundles'}", f"--runs={moved / 'runs'}"]
    command += ["--no-general", "--steps=10", "--threads=1", FP32]
    assert main([*command, "--strength=0.75"]) == 0
    (moved / "bundles" / "tiny").rename(moved / "bundles" / "other")
    derived = (moved / "runs" / "mine" / "derived.json").read_bytes()
    command[1] = "other"
    assert main(command) == 2
    assert "trained with another initial" in capsys.readouterr().err
    assert (moved / "runs" / "mine" / "derived.json").read_bytes() == derived
