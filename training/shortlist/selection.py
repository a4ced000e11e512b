"""Vocabulary shortlist of a run: learns its lexicon, chooses target ids, measures coverage."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.bundle.shortlist import Shortlist
from models.bundle.tokenizer import Tokenizer, Tokenizers
from training.data.corpus import CorpusError, read_lines, read_pairs
from training.data.shards import Shards
from training.data.tags import source_prefix
from training.recipe import Recipe
from training.run_directory import RunDirectory
from training.shortlist.lexicon import Lexicon, lexicon_of

LEAST_PROBABILITY = 3e-4

TOKENS_AT_ONCE = 1 << 22

BLANK = "\u2581"
"""How SentencePiece writes a blank."""

Ids = Sequence[int] | NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Coverage:
    """Coverage of given translations by a shortlist."""

    sentences: int
    tokens: int
    """Target tokens."""
    allowed: float
    """Share of the target tokens that are in their sentence's shortlist."""
    whole: float
    """Share of the sentences whose target tokens are all in the shortlist."""
    average_size: float
    """Mean number of target ids in a sentence's shortlist."""


@dataclass(frozen=True, slots=True)
class Report:
    vocabulary: int
    always: int
    """Number of ids that are always allowed."""
    valid: Coverage
    """Coverage of the validation set's references."""
    translations: Coverage | None
    """Coverage of the network's own translations of the test set; ``None`` before ``evaluate``."""


def make_shortlist(
    recipe: Recipe,
    run: RunDirectory,
    data_directory: Path,
    *,
    per_source: int,
    frequent: int,
) -> Report:
    """Write ``shortlist.npz`` of a prepared run; returns its coverage.

    Raises ``FileNotFoundError`` if the run is not prepared, ``CorpusError`` if the translations are
    of another test set.
    """
    shards = Shards.open(run.shards("train"))
    valid = Shards.open(run.shards("valid"))
    tokenizers = run.tokenizers()
    tokenizer, sources = tokenizers.target, tokenizers.source.vocabulary_size
    shortlist = choose(
        lexicon_of(run),
        always_allowed(shards, tokenizer, frequent),
        tokenizer.vocabulary_size,
        source_vocabulary_size=sources,
        per_source=per_source,
        without_list=tokenizer.special_ids.eos,
    )
    unfinished = run.shortlist.with_suffix(".partial")
    shortlist.save(unfinished)
    unfinished.replace(run.shortlist)
    return Report(
        vocabulary=tokenizer.vocabulary_size,
        always=len(shortlist.always),
        valid=coverage(shortlist, ((valid.source[i], valid.target[i]) for i in range(len(valid)))),
        translations=_coverage_of_translations(shortlist, tokenizers, recipe, run, data_directory),
    )


def always_allowed(shards: Shards, tokenizer: Tokenizer, frequent: int) -> NDArray[np.int32]:
    """The ``frequent`` most frequent target ids, ``unk``, ``eos``, and single digits and marks.

    A sentence's numbers, quotation marks and brackets cannot be learned from other sentences.
    ``pad``, ``bos`` and ids that no target sentence has are excluded.
    """
    special = tokenizer.special_ids
    tokens = shards.target.tokens
    counts = np.zeros(tokenizer.vocabulary_size, np.int64)
    # Counted in parts, because NumPy casts its input to a wider type; the tokens stay on disk.
    for start in range(0, len(tokens), TOKENS_AT_ONCE):
        part = tokens[start : start + TOKENS_AT_ONCE]
        counts += np.bincount(part, minlength=tokenizer.vocabulary_size)
    # Ties go to the smaller id.
    likeliest = np.argsort(-counts, kind="stable")[:frequent]
    seen = np.flatnonzero(counts).tolist()
    spelled = [i for i, piece in zip(seen, tokenizer.pieces(seen), strict=True) if _spells(piece)]
    chosen = {*likeliest[counts[likeliest] > 0].tolist(), *spelled, special.unk, special.eos}
    return np.array(sorted(chosen - {special.pad, special.bos}), np.int32)


def _spells(piece: str) -> bool:
    """Whether a piece is a digit, a punctuation mark, either after a blank, or a blank."""
    character = piece.removeprefix(BLANK)
    return len(character) <= 1 and all(
        c.isdecimal() or unicodedata.category(c).startswith("P") for c in character
    )


def choose(
    lexicon: Lexicon,
    always: NDArray[np.int32],
    vocabulary_size: int,
    *,
    source_vocabulary_size: int | None = None,
    per_source: int,
    least_probability: float = LEAST_PROBABILITY,
    without_list: int | None = None,
) -> Shortlist:
    """Each source id's ``per_source`` likeliest target ids beyond the always allowed ones.

    Ids less likely than ``least_probability`` are excluded: a target id adds to the shortlist of
    every sentence with the source id, and few of them use it. Source id ``without_list`` gets none.
    """
    always_V = np.zeros(vocabulary_size, bool)
    always_V[always] = True
    kept = (lexicon.probabilities_E >= least_probability) & ~always_V[lexicon.target_ids_E]
    if without_list is not None:
        kept &= lexicon.source_ids_E != without_list
    source_ids, target_ids = lexicon.source_ids_E[kept], lexicon.target_ids_E[kept]
    best_first = np.lexsort((target_ids, -lexicon.probabilities_E[kept], source_ids))
    source_ids, target_ids = source_ids[best_first], target_ids[best_first]
    sources = source_vocabulary_size or vocabulary_size
    starts = np.searchsorted(source_ids, np.arange(sources))
    first = np.arange(len(source_ids)) - starts[source_ids] < per_source
    source_ids, target_ids = source_ids[first], target_ids[first]
    in_order = np.lexsort((target_ids, source_ids))
    offsets = np.searchsorted(source_ids, np.arange(sources + 1))
    return Shortlist(always, offsets.astype(np.int32), target_ids[in_order].astype(np.int32))


def coverage(shortlist: Shortlist, pairs: Iterable[tuple[Ids, Ids]]) -> Coverage:
    """Coverage of the target ids of ``pairs`` by the shortlists of their source ids."""
    sentences = tokens = allowed = whole = size = 0
    for source_ids, target_ids in pairs:
        ids = shortlist.ids_for(source_ids)
        found = int(np.isin(target_ids, ids).sum())
        sentences += 1
        tokens += len(target_ids)
        allowed += found
        whole += found == len(target_ids)
        size += len(ids)
    return Coverage(
        sentences=sentences,
        tokens=tokens,
        allowed=allowed / max(tokens, 1),
        whole=whole / max(sentences, 1),
        average_size=size / max(sentences, 1),
    )


def _coverage_of_translations(
    shortlist: Shortlist,
    tokenizers: Tokenizers,
    recipe: Recipe,
    run: RunDirectory,
    data_directory: Path,
) -> Coverage | None:
    data = recipe.data
    pairs: list[tuple[Ids, Ids]] = []
    for (source, target), path in run.translations_of(data).items():
        if not path.exists():
            return None
        prefix, test = (
            source_prefix(data, target, tokenizers.source),
            data.test_set((source, target)),
        )
        texts = [pair.source for pair in read_pairs(test, source, target, data_directory)]
        translations = list(read_lines(path))
        if len(texts) != len(translations):
            raise CorpusError(
                f"{path} has {len(translations)} lines and {test.name} {len(texts)}; run "
                "`python -m training evaluate RECIPE` again"
            )
        pairs += (
            ((*prefix, *tokenizers.source.encode(text)), tokenizers.target.encode(translation))
            for text, translation in zip(texts, translations, strict=True)
        )
    return coverage(shortlist, pairs)
