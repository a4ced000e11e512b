"""A preparation that is killed and repeated writes the files of an unbroken one.

Every preparation is a process of its own, killed by SIGKILL at one of its steps.
"""

from __future__ import annotations

import random
import signal
from dataclasses import replace
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from tests.support.dying import dying
from tests.support.raising import raiser
from training.data import clean_text, encoding, progress
from training.data import prepare as hop
from training.data.cleaning import Cleaner
from training.data.shards import ShardWriter
from training.data.workers import WorkerFailed
from training.recipe import Augmentation, Corpus, Data, Network, Recipe, Vocabulary
from training.run_directory import RunDirectory

pytestmark = pytest.mark.slow

PATIENCE_SECONDS = 300.0
"""Longer than any preparation takes on a busy machine."""
MOMENTS: dict[str, tuple[object, str, int]] = {
    "first corpus": (Cleaner, "kept_of", 4),
    "second corpus": (Cleaner, "kept_of", 11),
    "cleaned": (hop, "make_vocabularies", 1),
    "vocabulary": (hop, "encode_texts", 1),
    "first pass": (ShardWriter, "append_packed", 4),
    "last pass": (ShardWriter, "append_packed", 8),
    "encoded": (hop, "_write_valid", 1),
    "complete": (hop, "_replace", 1),
    "replaced by half": (hop.shutil, "rmtree", 1),
}
"""Function and number of its call that is not entered, by the moment of the kill."""


def recipe() -> Recipe:
    names = ("one", "two", "held", "test")
    one, two, held, test = (Corpus(name=f"{name}/x") for name in names)
    return Recipe(
        name="killed",
        data=Data(
            source="de",
            target="en",
            # Two words are too few for a language, so that ``lingua`` loads no model.
            train=(replace(one, repeat=2.5, documents=True), replace(two, noisy=True)),
            valid=held,
            test=test,
            held_out=("test/x",),
            same_template=2,
            bidirectional=True,
            augmentation=Augmentation(joined=0.2, alone=0.2, names=0.2, passages=0.1),
        ),
        vocabulary=Vocabulary(size=120, kind="bpe"),
        network=Network(max_length=200),
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("data")
    rng = random.Random(3)
    for name, count in (("one", 90), ("two", 60), ("held", 9), ("test", 9)):
        (directory / name).mkdir()
        names = [f"{first}{last}" for first in "ABCDE" for last in ("nna", "en", "ora", "idar")]
        lines = [f"{rng.choice(names)} {rng.randrange(9)}" for _ in range(count)]
        for language, word in (("de", "geht"), ("en", "goes")):
            text = "".join(f"{line} {word}\n" for line in lines)
            (directory / name / f"x.{language}").write_text(text, encoding="utf-8")
    return directory


def prepared(path: Path, data: Path, processes: int, moment: str | None, resumed: bool) -> None:
    clean_text.BLOCK, encoding.BLOCK, progress.SAVE_SECONDS = 12, 7, 0.0
    if moment is not None:
        owner, name, number = MOMENTS[moment]
        setattr(owner, name, dying(getattr(owner, name), number))
    if resumed:
        hop._judge = raiser(AssertionError("prepared from the beginning"))
    hop.prepare(recipe(), RunDirectory(path), data, processes=processes)


def finish(
    context: ForkServerContext,
    path: Path,
    data: Path,
    processes: int = 1,
    moment: str | None = None,
    resumed: bool = False,
) -> int | None:
    process = context.Process(target=prepared, args=(path, data, processes, moment, resumed))
    process.start()
    process.join(PATIENCE_SECONDS)
    return process.exitcode


def contents_of(path: Path) -> dict[str, bytes]:
    files = (each for each in path.rglob("*") if each.is_file())
    return {str(each.relative_to(path)): each.read_bytes() for each in files}


@pytest.fixture(scope="module")
def unbroken(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a preparation in one process, in blocks of the usual size."""
    path = tmp_path_factory.mktemp("unbroken")
    report = hop.prepare(recipe(), RunDirectory(path), data)
    assert report["train"]["one/x"]["dropped"].keys() == {"boilerplate", "duplicate"}
    return contents_of(path)


def test_two_processes_write_the_files_of_one(
    context: ForkServerContext, tmp_path: Path, data: Path, unbroken: dict[str, bytes]
) -> None:
    assert finish(context, tmp_path, data, processes=2) == 0
    assert contents_of(tmp_path) == unbroken


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_preparation_goes_on_to_the_same_files(
    context: ForkServerContext, tmp_path: Path, data: Path, unbroken: dict[str, bytes], moment: str
) -> None:
    assert finish(context, tmp_path, data, moment=moment) == -signal.SIGKILL
    resumed = moment != "replaced by half"
    assert finish(context, tmp_path, data, processes=2, resumed=resumed) == 0
    assert contents_of(tmp_path) == unbroken


@pytest.mark.parametrize("error", [KeyboardInterrupt(), WorkerFailed("killed")])
@pytest.mark.parametrize("change", ["seed", "text", "nothing"])
def test_stopped_preparation_goes_on_only_with_the_same_recipe_and_text(
    tmp_path: Path,
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    change: str,
) -> None:
    run = RunDirectory(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(ShardWriter, "append_packed", raiser(error))
        with pytest.raises(type(error)):
            hop.prepare(recipe(), run, data)
    assert not run.data.exists()
    other = replace(recipe(), seed=7) if change == "seed" else recipe()
    judged: list[bool] = []
    monkeypatch.setattr(hop, "_judge", lambda *_: judged.append(True))
    text = data / "two" / "x.de"
    before = text.read_bytes()
    try:
        if change == "text":
            text.write_bytes(b"Anna 4\n" + before.partition(b"\n")[2])
        hop.prepare(other, run, data)
        assert judged == ([] if change == "nothing" else [True])
        fresh = RunDirectory(tmp_path / "fresh")
        hop.prepare(other, fresh, data)
        assert contents_of(run.path) == contents_of(fresh.path)
    finally:
        text.write_bytes(before)
