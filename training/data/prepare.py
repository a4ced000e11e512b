"""The hop ``prepare``: reads, cleans and augments text, learns the vocabulary, writes token shards.

Text is streamed. Memory grows by twenty bytes a pair, which detect duplicates, and by the sample
that the vocabulary is learned from. A killed preparation goes on from ``prepare.partial``.
"""

from __future__ import annotations

import itertools
import json
import logging
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

from models.bundle.bundle import sha256_of
from training.checkpoint import CheckpointError, checkpoints
from training.data.clean_text import clean_corpora, repeats_of
from training.data.cleaning import normalised, sides_of
from training.data.corpus import CorpusError, Pair, has_sides, read_lines, read_pairs, sides
from training.data.encoding import PAIRS, TOO_LONG, UNWRITABLE, Encoder, encode_texts
from training.data.leaks import TestSet
from training.data.plausibility import doubts
from training.data.progress import NAME as PROGRESS
from training.data.progress import Progress
from training.data.shards import ShardWriter
from training.data.vocabulary import make_vocabularies
from training.data.workers import WorkerFailed
from training.disk import writing
from training.initial.pretrained import find_pretrained, unwritable_ids
from training.loop.resuming import trained_on, vocabulary_of
from training.recipe import Augmentation, Corpus, Data, InvalidRecipe, Recipe
from training.run_directory import RunDirectory, held_out_split, validated_splits

logger = logging.getLogger(__name__)

BYTES_OF_IDS = 1.5
"""A byte of text becomes so many of token ids, both directions apart: four for a piece of some
three bytes, and eight for each sentence's end."""


def prepare(
    recipe: Recipe,
    run: RunDirectory,
    data_directory: Path,
    bundles: Path = Path("bundles"),
    processes: int = 1,
) -> dict[str, Any]:
    """Write tokenizers, shards and a report of what each filter dropped; returns the report.

    ``bundles`` is where ``recipe.initial`` may name a bundle. The number of ``processes`` changes
    no file. Raises ``CorpusError`` if a corpus is missing or broken, ``InvalidRecipe`` if
    ``initial`` does not exist or no vocabulary can be learned, ``CannotWrite`` if the disk is full,
    ``WorkerFailed``, and ``CheckpointError`` if the run was trained on what is no longer found;
    what was prepared before is then as it was. After a kill, an interrupt or ``WorkerFailed``, the
    next call goes on where this one stopped.
    """
    unfinished = RunDirectory(run.path / "prepare.partial")
    try:
        with writing(run.path, lambda: _bytes_needed(recipe, unfinished)):
            report = _prepare(recipe, run, unfinished, data_directory, bundles, processes)
            _require_same_if_trained(run, unfinished)
            _replace(run, unfinished)
    except (KeyboardInterrupt, WorkerFailed):
        raise
    except BaseException:
        shutil.rmtree(unfinished.path, ignore_errors=True)
        raise
    shutil.rmtree(unfinished.path, ignore_errors=True)
    return report


def is_prepared(recipe: Recipe, run: RunDirectory, data_directory: Path) -> bool:
    """Whether the run is prepared for just this recipe, from files of the same content."""
    if not run.data.is_dir():
        return False
    try:
        prepared = Recipe.from_dict(json.loads(run.recipe.read_text(encoding="utf-8")))
        report = json.loads(run.report.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, InvalidRecipe):
        # The data is of another version, or damaged, and is made again.
        return False
    return (
        all(getattr(prepared, name) == getattr(recipe, name) for name in _deciding(recipe))
        and {"files", "shards"} <= report.keys()
        and report["files"] == _digests(recipe, run, data_directory)
    )


def correct_licences(recipe: Recipe, run: RunDirectory) -> None:
    """Write those of ``recipe``, which the run is prepared for, into the run's own recipe.

    Runs that start from this one read it.
    """
    prepared = Recipe.from_dict(json.loads(run.recipe.read_text(encoding="utf-8")))
    corrected = replace(prepared, data=recipe.data).to_json()
    if corrected != prepared.to_json():
        with writing(run.path):
            unfinished = run.recipe.with_suffix(".partial")
            unfinished.write_text(corrected, encoding="utf-8")
            unfinished.replace(run.recipe)


def _deciding(recipe: Recipe) -> tuple[str, ...]:
    """The parts of a recipe that determine what is prepared."""
    data = recipe.data
    # The seed decides which pairs are augmented, and which ones a part of a corpus has.
    uses_seed = (
        data.augmentation != Augmentation()
        or data.temperature is not None
        or any(corpus.repeat % 1 for corpus in data.train)
    )
    return ("data", "vocabulary", "initial", *(("seed",) if uses_seed else ()))


def _digests(recipe: Recipe, run: RunDirectory, data_directory: Path) -> dict[str, list[str]]:
    """SHA-256 of the files of each corpus; generated corpora have none."""
    data = recipe.data
    return {
        corpus.label: [
            sha256_of(path)
            for path in sides(corpus, *data.languages(corpus), data_directory, run.translated)
        ]
        for corpus in (*data.train, *data.valid_sets, *_corpora_held_out(data, data_directory))
        if corpus.generator is None
    }


def _corpora_held_out(data: Data, directory: Path) -> list[Corpus]:
    """The sets of ``Data.held_out``, in all trained languages for which they have both files."""
    main, *others = dict.fromkeys(((data.source, data.target), *map(data.languages, data.train)))
    found = []
    for name in data.held_out:
        more = [
            Corpus(name=name, licence="", source=source, target=target)
            for source, target in others
            if has_sides(name, (source, target), directory)
        ]
        if not more or has_sides(name, main, directory):
            found.append(Corpus(name=name, licence=""))
        found += more
    return found


def _prepare(
    recipe: Recipe,
    run: RunDirectory,
    unfinished: RunDirectory,
    data_directory: Path,
    bundles: Path,
    processes: int,
) -> dict[str, Any]:
    data = recipe.data
    # Read first, so that a change during preparation is noticed.
    files = _digests(recipe, run, data_directory)
    pretrained = None if recipe.initial is None else find_pretrained(recipe, run, bundles)
    inherits = pretrained is not None and recipe.vocabulary.inherited
    unwritable = unwritable_ids(pretrained.network()[1]) if pretrained and inherits else frozenset()
    # Reading, cleaning and learning a vocabulary may take hours.
    valid = {
        corpus: list(read_pairs(corpus, *data.languages(corpus), data_directory))
        for corpus in data.valid_sets
    }
    for corpus, pairs in valid.items():
        _require(sum(pair.is_full for pair in pairs), (corpus,))
    progress = Progress(
        unfinished.path,
        {
            "recipe": {name: recipe.to_dict()[name] for name in _deciding(recipe)},
            "files": files,
            "initial": vocabulary_of(RunDirectory(pretrained.path)) if pretrained else None,
            "unwritable": sorted(unwritable),
        },
    )
    if progress.resumed:
        logger.info("%s goes on where an earlier command stopped", unfinished.path)
    else:
        _judge(recipe, data_directory)
        progress.save("judged", True)
    test_sets = _test_sets(recipe, data_directory)
    held_out = _held_out(recipe, data_directory)
    clean, counts = clean_corpora(
        recipe,
        run,
        unfinished.path / "text",
        data_directory,
        held_out,
        test_sets,
        progress,
        processes,
    )
    kept = sum(text.pairs for text in clean)
    _require(kept, data.train)
    if progress.document.get("vocabulary") != vocabulary_of(unfinished):
        progress.document.pop("encoding", None)
        make_vocabularies(
            recipe,
            pretrained,
            unfinished.path,
            lambda: itertools.chain.from_iterable(text.read() for text in clean),
            kept,
        )
        progress.save("vocabulary", vocabulary_of(unfinished))
    repeats = repeats_of(data, [text.pairs for text in clean])
    if data.temperature is not None:
        for text, repeat in zip(clean, repeats, strict=True):
            counts[text.corpus.label]["repeat"] = round(repeat, 4)
    encoder = Encoder(recipe, unfinished.tokenizers(), unwritable)
    train = encode_texts(recipe, clean, repeats, encoder, unfinished, progress, processes)
    _require(train.examples, data.train)
    for warning in itertools.chain.from_iterable(each.warnings() for each in test_sets):
        logger.warning("%s", warning)
    report = {
        "train": counts,
        "leaked": {each.name: {"pairs": each.pairs, "leaked": each.leaked} for each in test_sets},
        "augmented": dict(train.augmented),
        "domains": _shares(train.domains, data.largest_domain),
        **train.counts,
        "examples in an epoch": train.examples,
        "vocabulary": encoder.tokenizers.target.vocabulary_size,
        "source tokens": train.tokens[0],
        "target tokens": train.tokens[1],
    }
    if encoder.tokenizers.source is not encoder.tokenizers.target:
        report["source vocabulary"] = encoder.tokenizers.source.vocabulary_size
    if pretrained is not None and pretrained.origin is not None:
        report["initial"] = pretrained.origin
    report["files"] = files
    report["shards"] = {
        path.name: sha256_of(path) for path in sorted(unfinished.shards("train").iterdir())
    }
    counts_of_valid = [
        _write_valid(recipe, unfinished, encoder, corpus, valid[corpus], split)
        for split, corpus in validated_splits(data).values()
        if corpus in valid
    ]
    report |= counts_of_valid[0]
    if data.more_valid:
        labels = (corpus.label for corpus in data.more_valid)
        report["more valid"] = dict(zip(labels, counts_of_valid[1:], strict=True))
    report["held out"] = _write_held_out(recipe, unfinished, encoder, data_directory)
    unfinished.recipe.write_text(recipe.to_json(), encoding="utf-8")
    unfinished.report.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return report


def _judge(recipe: Recipe, data_directory: Path) -> None:
    """Raises ``CorpusError`` if sides are swapped, and warns of shifted lines."""
    data = recipe.data
    for corpus in data.corpora:
        if corpus.generator is None and corpus.translated is None:
            languages = data.languages(corpus)
            pairs = read_pairs(corpus, *languages, data_directory)
            for doubt in doubts(corpus.label, pairs, *languages):
                logger.warning("%s", doubt)


def _held_out(recipe: Recipe, data_directory: Path) -> Set[str]:
    """The texts of all sets to test and to validate with, as ``sides_of`` has them."""
    data = recipe.data
    tests = (
        read_pairs(corpus, *data.languages(corpus), data_directory)
        for corpus in _corpora_held_out(data, data_directory)
    )
    parts = (
        _part_held_out(corpus, recipe, data_directory)
        for corpus in data.train
        if corpus.hold_out is not None
    )
    read = itertools.chain(*tests, *parts)
    return {side for pair in read for side in sides_of(normalised(pair))}


def _part_held_out(corpus: Corpus, recipe: Recipe, data_directory: Path) -> Iterator[Pair]:
    """The pairs of a training corpus that are validated with."""
    pairs = read_pairs(corpus, *recipe.data.languages(corpus), data_directory)
    return itertools.islice(pairs, 0, None, corpus.hold_out)


def _shares(domains: Counter[str], largest: float) -> dict[str, float]:
    """Share of the tokens by domain. Raises ``InvalidRecipe`` if one has more than ``largest``."""
    total = sum(domains.values())
    shares = {domain: round(tokens / total, 4) for domain, tokens in domains.most_common()}
    for domain, share in shares.items():
        if share > largest:
            raise InvalidRecipe(
                f"the domain {domain!r} has {share:.1%} of the tokens, more than "
                f"data.largest_domain, {largest:.1%}; lower the `repeat` or `most` of its corpora"
            )
    return shares


def _test_sets(recipe: Recipe, data_directory: Path) -> list[TestSet]:
    """All sets to validate and to test with; chance repeats those of a generated corpus."""
    data = recipe.data
    whole = {
        corpus.label: corpus
        for corpus in (
            *data.valid_sets,
            *data.test_sets,
            *_corpora_held_out(data, data_directory),
        )
        if corpus.generator is None
    }
    return [
        *(
            TestSet(name, read_pairs(corpus, *data.languages(corpus), data_directory))
            for name, corpus in whole.items()
        ),
        *(
            TestSet(held_out_split(corpus), _part_held_out(corpus, recipe, data_directory))
            for corpus in data.train
            if corpus.hold_out is not None
        ),
    ]


def _write_valid(
    recipe: Recipe,
    run: RunDirectory,
    encoder: Encoder,
    corpus: Corpus,
    pairs: Sequence[Pair],
    split: str,
) -> dict[str, int]:
    """The shards ``split`` with ``pairs`` of ``corpus`` to validate with, but for what is empty or
    too long, or cannot be written."""
    data = recipe.data
    full = [pair for pair in pairs if pair.is_full]
    encoded = encoder.encoded(Pair.columns(full), data.languages(corpus))
    _require(len(encoded.pairs), (corpus,))
    with ShardWriter(run.shards(split)) as valid:
        valid.append(list(itertools.chain.from_iterable(encoded.pairs)))
    if len(data.directions) > 1:
        for i, path in enumerate(run.shards_of(split, corpus, data).values()):
            with ShardWriter(path) as valid:
                valid.append([pair[i] for pair in encoded.pairs])
    return {
        "valid pairs": encoded.counts[PAIRS],
        "valid with too many pieces": encoded.counts[TOO_LONG],
        "valid with pieces that are never written": encoded.counts[UNWRITABLE],
        "valid empty": len(pairs) - len(full),
    }


def _write_held_out(
    recipe: Recipe,
    run: RunDirectory,
    encoder: Encoder,
    data_directory: Path,
) -> dict[str, dict[str, int]]:
    """Shards and text of the pairs that corpora hold out; returns counts by corpus.

    The text lies as in a data directory, with the lines of ``<corpus>.meta`` if there are any.
    """
    data = recipe.data
    counts = {}
    for corpus in data.train:
        if corpus.hold_out is None:
            continue
        pairs = list(_part_held_out(corpus, recipe, data_directory))
        split = held_out_split(corpus)
        counts[corpus.label] = _write_valid(recipe, run, encoder, corpus, pairs, split)
        columns = dict(zip(data.languages(corpus), zip(*pairs, strict=True), strict=True))
        metas = (data_directory / f"{corpus.name}.meta{end}" for end in ("", ".gz"))
        for meta in filter(Path.is_file, metas):
            columns["meta"] = tuple(itertools.islice(read_lines(meta), 0, None, corpus.hold_out))
        for suffix, lines in columns.items():
            path = run.held_out / f"{corpus.name}.{suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return counts


def _require(count: int, corpora: Sequence[Corpus]) -> None:
    if not count:
        names = ", ".join(corpus.label for corpus in corpora)
        raise CorpusError(f"no pair of {names} is left after cleaning")


def _bytes_needed(recipe: Recipe, unfinished: RunDirectory) -> int:
    """Estimated size of the prepared data, as far as the text has been read.

    The text lies beside the ids until these are complete.
    """
    sizes = [
        sum(path.stat().st_size for path in (unfinished.path / "text").glob(f"{i}.*"))
        for i in range(len(recipe.data.train))
    ]
    repeats = repeats_of(recipe.data, sizes)
    copies = sum(size * repeat for size, repeat in zip(sizes, repeats, strict=True))
    return round(sum(sizes) + BYTES_OF_IDS * copies * (1 + recipe.data.bidirectional))


def _require_same_if_trained(run: RunDirectory, prepared: RunDirectory) -> None:
    """Refuse other text, pieces or bundle for a trained run: they belong to its weights."""
    if checkpoints(run.path) and trained_on(run) != trained_on(prepared):
        raise CheckpointError(
            f"{run.path} has been trained on other text, with other pieces or from another bundle "
            "than the recipe finds today, and stays as it is; choose another directory with "
            f"--runs, or remove {run.path} to begin again"
        )


def _replace(run: RunDirectory, prepared: RunDirectory) -> None:
    """Put what was prepared into its place.

    Shards that are there are whole, and made with the tokenizers and the recipe beside them: the
    old ones go first, and the rename of the new ones is the last thing that happens.
    """
    old = prepared.path / "old"
    # A kill leaves files in both places, from which nothing can go on.
    (prepared.path / PROGRESS).unlink()
    if run.data.exists():
        run.data.rename(old)
    shutil.rmtree(run.held_out, ignore_errors=True)
    if prepared.held_out.exists():
        prepared.held_out.rename(run.held_out)
    # A shortlist is of the vocabulary that it was made for, what was tuned of the network.
    run.shortlist.unlink(missing_ok=True)
    run.decoding.unlink(missing_ok=True)
    for name in ("tokenizer", "source_tokenizer", "target_tokenizer", "recipe", "report"):
        made: Path = getattr(prepared, name)
        wanted: Path = getattr(run, name)
        if made.exists():
            made.replace(wanted)
        else:
            wanted.unlink(missing_ok=True)
    prepared.data.rename(run.data)
