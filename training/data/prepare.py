"""The hop ``prepare``: reads, cleans and augments text, learns the vocabulary, writes token shards.

Text is streamed. Memory grows by twenty bytes a pair, which detect duplicates, and by the sample
that the vocabulary is learned from.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from models.bundle.bundle import sha256_of
from models.bundle.tokenizer import Tokenizers
from training.checkpoint import CheckpointError, checkpoints
from training.data.augmentation import Augmenter
from training.data.cleaning import Cleaner, sides_of
from training.data.corpus import CorpusError, Pair, read_lines, read_pairs, sides
from training.data.leaks import TestSet, warnings_of
from training.data.plausibility import doubts
from training.data.seen import Seen
from training.data.shards import IdPair, ShardWriter
from training.data.tags import source_prefix
from training.data.vocabulary import make_vocabularies, sampled
from training.disk import writing
from training.initial.pretrained import find_pretrained, unwritable_ids
from training.loop.resuming import trained_on
from training.recipe import Augmentation, Corpus, InvalidRecipe, Recipe
from training.run_directory import RunDirectory, held_out_split

logger = logging.getLogger(__name__)

PART = 10_000
"""Pairs that are encoded at once."""

BYTES_OF_IDS = 1.5
"""A byte of text becomes so many of token ids, both directions apart: four for a piece of some
three bytes, and eight for each sentence's end."""


def prepare(
    recipe: Recipe, run: RunDirectory, data_directory: Path, bundles: Path = Path("bundles")
) -> dict[str, Any]:
    """Write tokenizers, shards and a report of what each filter dropped; returns the report.

    ``bundles`` is where ``recipe.initial`` may name a bundle. Raises ``CorpusError`` if a corpus is
    missing or broken, ``InvalidRecipe`` if ``initial`` does not exist or no vocabulary can be
    learned, ``CannotWrite`` if the disk is full, and ``CheckpointError`` if the run was
    trained on what is no longer found; what was prepared before is then as it was.
    """
    unfinished = RunDirectory(run.path / "prepare.partial")
    try:
        with writing(run.path, lambda: _bytes_needed(recipe, unfinished)):
            shutil.rmtree(unfinished.path, ignore_errors=True)
            unfinished.path.mkdir(parents=True)
            report = _prepare(recipe, run, unfinished, data_directory, bundles)
            _require_same_if_trained(run, unfinished)
            _replace(run, unfinished)
    finally:
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
    # The seed decides which pairs are augmented.
    seed = () if recipe.data.augmentation == Augmentation() else ("seed",)
    same = ("data", "vocabulary", "initial", *seed)
    return (
        all(getattr(prepared, name) == getattr(recipe, name) for name in same)
        and {"files", "shards"} <= report.keys()
        and report["files"] == _digests(recipe, run, data_directory)
    )


def _digests(recipe: Recipe, run: RunDirectory, data_directory: Path) -> dict[str, list[str]]:
    """SHA-256 of the files of each corpus; generated corpora have none."""
    data = recipe.data
    return {
        corpus.label: [
            sha256_of(path)
            for path in sides(corpus, data.source, data.target, data_directory, run.translated)
        ]
        for corpus in (*data.train, data.valid, *_corpora_held_out(recipe))
        if corpus.generator is None
    }


def _corpora_held_out(recipe: Recipe) -> list[Corpus]:
    return [Corpus(name=name, licence="") for name in recipe.data.held_out]


def _prepare(
    recipe: Recipe,
    run: RunDirectory,
    unfinished: RunDirectory,
    data_directory: Path,
    bundles: Path,
) -> dict[str, Any]:
    data = recipe.data
    # Read first, so that a change during preparation is noticed.
    files = _digests(recipe, run, data_directory)
    pretrained = None if recipe.initial is None else find_pretrained(recipe, run, bundles)
    # Reading, cleaning and learning a vocabulary may take hours.
    valid = list(read_pairs(data.valid, data.source, data.target, data_directory))
    _require(sum(pair.is_full for pair in valid), (data.valid,))
    _judge(recipe, data_directory)
    test_sets = _test_sets(recipe, data_directory)
    clean, counts = _cleaned(recipe, run, unfinished.path / "text", data_directory, test_sets)
    kept = sum(text.pairs for text in clean)
    _require(kept, data.train)
    make_vocabularies(
        recipe,
        pretrained,
        unfinished.path,
        lambda: itertools.chain.from_iterable(text.read() for text in clean),
        kept,
    )
    inherits = pretrained is not None and recipe.vocabulary.inherited
    unwritable = unwritable_ids(pretrained) if pretrained and inherits else frozenset()
    encoder = _Encoder(recipe, unfinished.tokenizers(), unwritable)
    augmenter = Augmenter(data.augmentation, data.source, data.target, recipe.seed)
    domains: Counter[str] = Counter()
    with ShardWriter(unfinished.shards("train")) as train:
        for text in clean:
            before = sum(train.tokens)
            for i in range(text.corpus.repeat):
                # Each time through a corpus changes other pairs.
                name = f"{text.corpus.label} {i}"
                augmented = augmenter.augmented(text.read(), name, text.corpus.documents)
                for pairs in encoder.encoded(_track(augmented, f"encoding {text.corpus.label}")):
                    train.append(list(itertools.chain.from_iterable(pairs)))
            domains[text.corpus.domain] += sum(train.tokens) - before
    _require(train.pairs, data.train)
    for warning in itertools.chain.from_iterable(each.warnings() for each in test_sets):
        logger.warning("%s", warning)
    report = {
        "train": counts,
        "leaked": {each.name: {"pairs": each.pairs, "leaked": each.leaked} for each in test_sets},
        "augmented": dict(augmenter.counts),
        "domains": _shares(domains, data.largest_domain),
        "pairs": encoder.kept,
        "too many pieces": encoder.too_long,
        "pieces that are never written": encoder.unwritable,
        "examples in an epoch": train.pairs,
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
    of_valid = _Encoder(recipe, encoder.tokenizers, unwritable)
    report |= _write_valid(recipe, unfinished, of_valid, data.valid, valid, "valid")
    report["held out"] = _write_held_out(
        recipe, unfinished, encoder.tokenizers, unwritable, data_directory
    )
    unfinished.recipe.write_text(json.dumps(recipe.to_dict(), indent=2) + "\n", encoding="utf-8")
    unfinished.report.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return report


@dataclass(frozen=True, slots=True)
class _CleanText:
    """Text of a corpus after cleaning, as two files of lines."""

    corpus: Corpus
    source: Path
    target: Path
    found: int
    """Pairs that passed the filters."""

    @property
    def pairs(self) -> int:
        """Pairs that are used."""
        return min(self.found, self.corpus.most or self.found)

    def read(self) -> Iterator[Pair]:
        pairs = map(Pair, read_lines(self.source), read_lines(self.target))
        return sampled(pairs, self.found, self.pairs)


def _judge(recipe: Recipe, data_directory: Path) -> None:
    """Raises ``CorpusError`` if sides are swapped, and warns of shifted lines."""
    data = recipe.data
    for corpus in (*data.train, data.valid, data.test):
        if corpus.generator is None and corpus.translated is None:
            pairs = read_pairs(corpus, data.source, data.target, data_directory)
            for doubt in doubts(corpus.name, pairs, data.source, data.target):
                logger.warning("%s", doubt)


def _held_out(recipe: Recipe, data_directory: Path) -> Set[str]:
    """The texts of all sets to test and to validate with, as ``sides_of`` has them."""
    data = recipe.data
    tests = (
        read_pairs(corpus, data.source, data.target, data_directory)
        for corpus in _corpora_held_out(recipe)
    )
    parts = (
        _part_held_out(corpus, recipe, data_directory)
        for corpus in data.train
        if corpus.hold_out is not None
    )
    return {side for pairs in (*tests, *parts) for pair in pairs for side in sides_of(pair)}


def _part_held_out(corpus: Corpus, recipe: Recipe, data_directory: Path) -> Iterator[Pair]:
    """The pairs of a training corpus that are validated with."""
    data = recipe.data
    pairs = read_pairs(corpus, data.source, data.target, data_directory)
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


def _track(pairs: Iterable[Pair], title: str) -> Iterable[Pair]:
    """The pairs, with a progress bar on a terminal while they are read."""
    return tqdm(
        pairs,
        title,
        unit=" pairs",
        unit_scale=True,
        leave=False,
        dynamic_ncols=True,
        disable=None,
    )


def _test_sets(recipe: Recipe, data_directory: Path) -> list[TestSet]:
    """All sets to validate and to test with; chance repeats those of a generated corpus."""
    data = recipe.data
    whole = {
        corpus.name: corpus
        for corpus in (data.valid, data.test, *_corpora_held_out(recipe))
        if corpus.generator is None
    }
    return [
        *(
            TestSet(name, read_pairs(corpus, data.source, data.target, data_directory))
            for name, corpus in whole.items()
        ),
        *(
            TestSet(held_out_split(corpus), _part_held_out(corpus, recipe, data_directory))
            for corpus in data.train
            if corpus.hold_out is not None
        ),
    ]


def _cleaned(
    recipe: Recipe,
    run: RunDirectory,
    directory: Path,
    data_directory: Path,
    test_sets: Sequence[TestSet],
) -> tuple[list[_CleanText], dict[str, Any]]:
    data = recipe.data
    directory.mkdir()
    known = Seen()
    held_out = _held_out(recipe, data_directory)
    texts, counts = [], {}
    for i, corpus in enumerate(data.train):
        cleaner = Cleaner(
            max_words=data.max_length,
            max_ratio=data.max_ratio,
            same_numbers=data.same_numbers,
            generated=corpus.generator is not None,
            machine=corpus.translated,
            noisy=(data.source, data.target) if corpus.noisy else None,
            held_out=held_out,
            same_template=data.same_template,
            known=known,
        )
        found = read_pairs(corpus, data.source, data.target, data_directory, run.translated)
        if corpus.hold_out is not None:
            every = corpus.hold_out
            found = (pair for i, pair in enumerate(found) if i % every)
        paths = directory / f"{i}.source", directory / f"{i}.target"
        with paths[0].open("wb") as source, paths[1].open("wb") as target:
            for pair in cleaner.clean(_track(found, corpus.label)):
                of_pair = sides_of(pair) if test_sets else set()
                for test_set in test_sets:
                    test_set.note(of_pair)
                source.write(f"{pair.source}\n".encode())
                target.write(f"{pair.target}\n".encode())
        texts.append(_CleanText(corpus, *paths, cleaner.kept))
        counts[corpus.label] = {
            "read": cleaner.seen,
            "kept": cleaner.kept,
            "used": texts[-1].pairs,
            "dropped": dict(cleaner.dropped),
        }
        dropped = ", ".join(f"{count:,} {name}" for name, count in cleaner.dropped.most_common())
        logger.info(
            "%s: %s of %s pairs%s",
            *(corpus.label, f"{texts[-1].pairs:,}", f"{cleaner.seen:,}"),
            f"; dropped: {dropped}" if dropped else "",
        )
        for warning in warnings_of(corpus.label, cleaner.seen, cleaner.dropped):
            logger.warning("%s", warning)
    return texts, counts


class _Encoder:
    """Pairs of texts to pairs of token ids, one per direction, tags included."""

    def __init__(self, recipe: Recipe, tokenizers: Tokenizers, unwritable: Set[int]) -> None:
        """``unwritable`` are ids that the network never writes, and cannot learn to write."""
        self.tokenizers = tokenizers
        self.kept = 0
        self.too_long = 0
        self.unwritable = 0
        self._unwritable = unwritable
        self._max_length = recipe.data.max_length
        self._prefixes = [
            list(source_prefix(recipe.data, target, tokenizers.source))
            for _, target in recipe.data.directions
        ]
        self._threads = os.cpu_count() or 1

    def encoded(self, pairs: Iterable[Pair]) -> Iterator[list[list[IdPair]]]:
        """Part by part, each pair that is short enough and writable in every direction."""
        pairs = iter(pairs)
        while part := list(itertools.islice(pairs, PART)):
            sources = self.tokenizers.source.encode_all((p.source for p in part), self._threads)
            targets = self.tokenizers.target.encode_all((p.target for p in part), self._threads)
            longest = self._max_length - len(self._prefixes[0])
            short = [
                self._both_ways(source, target)
                for source, target in zip(sources, targets, strict=True)
                if max(len(source), len(target)) <= longest
            ]
            kept = [
                pairs
                for pairs in short
                if all(self._unwritable.isdisjoint(written) for _, written in pairs)
            ]
            self.kept += len(kept)
            self.too_long += len(part) - len(short)
            self.unwritable += len(short) - len(kept)
            yield kept

    def _both_ways(self, source: list[int], target: list[int]) -> list[IdPair]:
        sides = ((source, target), (target, source))
        return [
            (prefix + read, written)
            for prefix, (read, written) in zip(self._prefixes, sides, strict=False)
        ]


def _write_valid(
    recipe: Recipe,
    run: RunDirectory,
    encoder: _Encoder,
    corpus: Corpus,
    pairs: Sequence[Pair],
    split: str,
) -> dict[str, int]:
    """The shards ``split`` with ``pairs`` of ``corpus`` to validate with, but for what is empty or
    too long, or cannot be written."""
    data = recipe.data
    full = [pair for pair in pairs if pair.is_full]
    parts = list(encoder.encoded(full))
    _require(encoder.kept, (corpus,))
    with ShardWriter(run.shards(split)) as valid:
        for part in parts:
            valid.append(list(itertools.chain.from_iterable(part)))
    if data.bidirectional:
        for i, path in enumerate(run.shards_of(split, data).values()):
            with ShardWriter(path) as valid:
                for part in parts:
                    valid.append([pair[i] for pair in part])
    return {
        "valid pairs": encoder.kept,
        "valid with too many pieces": encoder.too_long,
        "valid with pieces that are never written": encoder.unwritable,
        "valid empty": len(pairs) - len(full),
    }


def _write_held_out(
    recipe: Recipe,
    run: RunDirectory,
    tokenizers: Tokenizers,
    unwritable: Set[int],
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
        encoder = _Encoder(recipe, tokenizers, unwritable)
        counts[corpus.name] = _write_valid(recipe, run, encoder, corpus, pairs, split)
        columns = dict(zip((data.source, data.target), zip(*pairs, strict=True), strict=True))
        metas = (data_directory / f"{corpus.name}.meta{end}" for end in ("", ".gz"))
        for meta in filter(Path.is_file, metas):
            columns["meta"] = tuple(read_lines(meta))[:: corpus.hold_out]
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
    copies = max(corpus.repeat for corpus in recipe.data.train) * len(recipe.data.directions)
    text = sum(path.stat().st_size for path in (unfinished.path / "text").glob("*"))
    return round(text * (1 + BYTES_OF_IDS * copies))


def _require_same_if_trained(run: RunDirectory, prepared: RunDirectory) -> None:
    """Refuse other text or pieces for a trained run: its tokenizer belongs to its weights."""
    if checkpoints(run.path) and trained_on(run) != trained_on(prepared):
        raise CheckpointError(
            f"{run.path} has been trained on other text, or with other pieces, than the recipe "
            "finds today, and stays as it is; choose another directory with --runs, or remove "
            f"{run.path} to begin again"
        )


def _replace(run: RunDirectory, prepared: RunDirectory) -> None:
    """Put what was prepared into its place.

    Shards that are there are whole, and made with the tokenizers and the recipe beside them: the
    old ones go first, and the rename of the new ones is the last thing that happens.
    """
    old = prepared.path / "old"
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
