"""The first hop of a run: read, normalise, clean, learn the vocabulary, write token shards."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterable, Sequence, Sized
from pathlib import Path
from typing import Any

from models.bundle.tokenizer import Tokenizer, train_tokenizer
from training.data.cleaning import Cleaner
from training.data.corpus import CorpusError, Pair, read_pairs
from training.data.shards import Shards
from training.recipe import Corpus, InvalidRecipe, Recipe, RunDirectory

logger = logging.getLogger(__name__)


def prepare(recipe: Recipe, run: RunDirectory, data_directory: Path) -> dict[str, Any]:
    """Write tokenizer, shards and a report of what each filter dropped; returns the report.

    Raises ``CorpusError`` if a corpus is missing or broken, ``InvalidRecipe`` if the text cannot
    fill the vocabulary; what was prepared before is then as it was.
    """
    run.path.mkdir(parents=True, exist_ok=True)
    data = recipe.data
    pairs: list[Pair] = []
    report: dict[str, Any] = {"train": {}}
    for corpus in data.train:
        cleaner = Cleaner(max_words=data.max_length, max_ratio=data.max_ratio)
        pairs += cleaner.clean(read_pairs(corpus, data.source, data.target, data_directory))
        report["train"][corpus.name] = {
            "read": cleaner.seen,
            "kept": cleaner.kept,
            "dropped": dict(cleaner.dropped),
        }
        logger.info("%s: %s", corpus.name, report["train"][corpus.name])
    _require(pairs, data.train)
    new_tokenizer = run.tokenizer.with_suffix(".partial")
    tokenizer = _tokenizer_of(pairs, recipe, new_tokenizer)
    encoded, too_long = _encoded(pairs, tokenizer, data.max_length)
    valid, valid_too_long = _encoded(
        read_pairs(data.valid, data.source, data.target, data_directory), tokenizer, data.max_length
    )
    _require(encoded, data.train)
    _require(valid, (data.valid,))
    # Shards that are there are whole, and made with the tokenizer and recipe beside them: the old
    # ones go first, and the rename of the new ones is the last thing that happens.
    shutil.rmtree(run.data, ignore_errors=True)
    unfinished = run.data.with_suffix(".partial")
    shutil.rmtree(unfinished, ignore_errors=True)
    # A shortlist is of the vocabulary that it was made for.
    run.shortlist.unlink(missing_ok=True)
    new_tokenizer.replace(run.tokenizer)
    train_shards = Shards.write(unfinished / "train", encoded)
    Shards.write(unfinished / "valid", valid)
    report |= {
        "pairs": len(encoded),
        "too many pieces": too_long,
        "vocabulary": tokenizer.vocabulary_size,
        "source tokens": int(train_shards.source.offsets[-1]),
        "target tokens": int(train_shards.target.offsets[-1]),
        "valid pairs": len(valid),
        "valid with too many pieces": valid_too_long,
    }
    run.recipe.write_text(json.dumps(recipe.to_dict(), indent=2) + "\n", encoding="utf-8")
    run.report.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    unfinished.rename(run.data)
    return report


def _tokenizer_of(pairs: Iterable[Pair], recipe: Recipe, path: Path) -> Tokenizer:
    vocabulary = recipe.vocabulary
    try:
        return train_tokenizer(
            (side for pair in pairs for side in pair),
            path,
            vocabulary_size=vocabulary.size,
            kind=vocabulary.kind,
        )
    except ValueError as error:
        raise InvalidRecipe(f"recipe {recipe.name!r}: {error}") from error


def _require(pairs: Sized, corpora: Sequence[Corpus]) -> None:
    if not pairs:
        names = ", ".join(corpus.name for corpus in corpora)
        raise CorpusError(f"no pair of {names} is left after cleaning")


def _encoded(
    pairs: Iterable[Pair], tokenizer: Tokenizer, max_length: int
) -> tuple[list[tuple[tuple[int, ...], tuple[int, ...]]], int]:
    """Token ids of the pairs that are short enough, and how many are not."""
    encoded = [(tokenizer.encode(pair.source), tokenizer.encode(pair.target)) for pair in pairs]
    kept = [pair for pair in encoded if max(map(len, pair)) <= max_length]
    return kept, len(encoded) - len(kept)
