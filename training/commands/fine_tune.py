"""``fine-tune`` command: trains a bundle further on translation memories, and exports the result.

The same command resumes after an interruption. It ends with a comparison of both bundles on the
held-out part of the memories and on general text.
"""

from __future__ import annotations

import argparse
import filecmp
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from training.commands import Commands, report, run, train
from training.commands.options import Job, add_device, add_precisions, add_settings, positive
from training.data import default_data_directory

_DIVIDED = "corpora.unfinished"
"""The text of a run, until it is known to be that of its checkpoints."""

if TYPE_CHECKING:
    from models.bundle.bundle import Bundle
    from training.run_directory import RunDirectory


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "fine-tune",
        help="train a bundle further on translation memories, and publish it",
        description="Train a bundle further on translation memories, mixed with general text; "
        "export it, and compare both on a part that is held out and on general text.",
    )
    parser.add_argument("start", metavar="BUNDLE", help="a name in --bundles, or a path")
    parser.add_argument(
        "--data",
        dest="memories",
        type=Path,
        action="append",
        required=True,
        metavar="FILE",
        help="a .tmx, .xliff, .po or .tsv; or NAME for the files NAME.de and NAME.en of lines; "
        "may be repeated",
    )
    parser.add_argument(
        "--general",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="general text, in the same formats (default: what the card of the bundle names, if it "
        "is in --corpora); may be repeated",
    )
    parser.add_argument(
        "--no-general", action="store_true", help="mix in nothing, and forget what is not repeated"
    )
    parser.add_argument(
        "--strength",
        type=share,
        default=0.5,
        help="share of the fine-tuned weights; the remainder are those of BUNDLE, so that less is "
        "forgotten (default: 0.5)",
    )
    parser.add_argument("--from", dest="source", metavar="CODE", help="else the bundle's first")
    parser.add_argument(
        "-o", "--output", dest="name", required=True, metavar="NAME", help="of the run and bundle"
    )
    parser.add_argument("--steps", type=positive, help="train so many steps (default: 1.25 epochs)")
    add_settings(parser)
    parser.add_argument(
        "--corpora",
        type=Path,
        default=default_data_directory(),
        help="directory of general corpora (default: $TRAINING_DATA or ../shared/data)",
    )
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="(default: runs)")
    parser.add_argument("--bundles", type=Path, default=Path("bundles"), help="(default: bundles)")
    add_device(parser)
    add_precisions(parser, ["int8"], "int8")
    train.add_options(parser)
    parser.set_defaults(perform=perform)


def share(text: str) -> float:
    number = float(text)
    if not 0 < number <= 1:
        raise argparse.ArgumentTypeError(f"{text} is no share: above 0, and 1 at most")
    return number


def perform(options: argparse.Namespace) -> None:
    from models.bundle.bundle import Bundle
    from training.data.translate import find_translator
    from training.fine_tuning import direction_from, require_trainable
    from training.recipe import InvalidRecipe, require_name
    from training.run_directory import RunDirectory
    from training.run_lock import locked

    require_name("-o", options.name)
    path = find_translator(options.start, options.bundles)
    if (options.bundles / options.name).resolve() == path.resolve():
        raise InvalidRecipe(f"-o {options.name} is the bundle to start from; choose another name")
    directory = RunDirectory(options.runs / options.name)
    published = options.bundles / options.name
    if published.exists() and not directory.averaged.exists():
        raise InvalidRecipe(
            f"{published} exists, and {directory.path} has not made it; choose another name, so "
            "that either version can be served"
        )
    bundle = Bundle.open(path)
    languages = direction_from(bundle, options.source)
    require_trainable(bundle, languages)
    with locked(directory):
        try:
            _fine_tune(options, directory, bundle, languages, published)
        finally:
            # There, if the text or an option was refused.
            shutil.rmtree(directory.path / _DIVIDED, ignore_errors=True)


def _fine_tune(
    options: argparse.Namespace,
    directory: RunDirectory,
    bundle: Bundle,
    languages: tuple[str, str],
    published: Path,
) -> None:
    from training.checkpoint import CheckpointError, checkpoints
    from training.data.corpus import CorpusError
    from training.data.memories import Memory
    from training.disk import writing
    from training.fine_tuning import (
        GENERAL,
        LEAST_GENERAL,
        OWN,
        corpora_of,
        corpus_pairs,
        divide,
        forgotten,
        new_pairs,
        recipe_for,
        sample_general,
    )
    from training.recipe import InvalidRecipe
    from training.recipe_file import overridden

    corpora, divided = directory.path / "corpora", directory.path / _DIVIDED
    # A killed command leaves it, perhaps with other general text.
    shutil.rmtree(divided, ignore_errors=True)
    memories = [Memory(each, *languages) for each in options.memories]
    own = divide(new_pairs(memories), divided / OWN, *languages)
    for memory in memories:
        print(memory)
    general = None
    if not options.no_general:
        named = {tests: corpora_of(bundle, options.corpora, tests=tests) for tests in (False, True)}
        texts = [Memory(each, *languages).read() for each in options.general]
        texts = texts or [corpus_pairs(each, *languages, options.corpora) for each in named[False]]
        tests = [] if options.general else named[True][:1]
        general = sample_general(
            texts,
            [corpus_pairs(each, *languages, options.corpora) for each in tests],
            max(LEAST_GENERAL, own.train),
            divided / GENERAL,
            *languages,
        )
    print(
        f"{own.train:,} pairs to learn from, {own.valid:,} to validate and {own.test:,} to test; "
        + (
            f"general text: {general.train:,} pairs, and {general.test:,} to test"
            if general
            else "no general text: the model may forget other subjects; name some with --general"
        )
    )
    recipe = recipe_for(
        options.name, bundle, languages, own, general, options.strength, options.steps
    )
    recipe = overridden(recipe, options.settings)
    if recipe.name != options.name:
        raise InvalidRecipe("--set name: -o names the run and its bundle")
    trained = bool(checkpoints(directory.path)) and corpora.exists()
    if trained and not _equal(divided, corpora):
        raise CheckpointError(
            f"{directory.path} has been trained on other text, and stays as it is; choose another "
            f"name for -o, or remove {directory.path} and the bundle {published} to begin again"
        )
    earlier = directory.derived.read_bytes() if trained and directory.derived.exists() else None
    with writing(directory.path):
        if not trained:
            shutil.rmtree(corpora, ignore_errors=True)
            divided.rename(corpora)
        directory.derived.write_text(recipe.to_json(), encoding="utf-8")

    hop_options = argparse.Namespace(**{**vars(options), "data": corpora, "best": False})
    try:
        run.perform_hops(Job(recipe, directory, hop_options))
    except (CheckpointError, CorpusError, InvalidRecipe):
        if earlier is not None:
            # The recipe that the checkpoints are of.
            directory.derived.write_bytes(earlier)
        raise
    sections = report.written(
        argparse.Namespace(
            systems=[str(bundle.path), str(published)],
            bundles=options.bundles,
            test=[f"{OWN}/test", *([f"{GENERAL}/test"] if general else [])],
            source=None,
            target=None,
            data=corpora,
            beam_size=None,
            threads=options.threads,
            output=directory.path / "report.html",
        )
    )
    for loss in forgotten(sections):
        print(
            f"worse than {bundle.manifest.name} on general text, {loss}: the same command with "
            f"--strength {recipe.strength / 2:g} keeps more of the old weights, without training "
            "again"
        )
    print(
        f'both are served; name one in the request: "model": "{options.name}"; '
        f"`dragoman models remove {options.name}` leaves {bundle.manifest.name} alone"
    )


def _equal(one: Path, other: Path) -> bool:
    """Whether two directories have the same files."""
    names, others = (
        {path.relative_to(each) for path in each.rglob("*") if path.is_file()}
        for each in (one, other)
    )
    return names == others and all(
        filecmp.cmp(one / name, other / name, shallow=False) for name in names
    )
