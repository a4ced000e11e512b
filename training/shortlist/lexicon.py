"""Learns a lexical translation table from token shards with IBM Model 1.

Brown et al., "The Mathematics of Statistical Machine Translation" (1993), section 4: every target
token comes from one source token of its sentence, or from none, with equal prior probability.

Pairs are read in batches of so many *links* (a source token with a target token of one pair). The
table holds only ids that occur together; beyond ``MOST_ENTRIES`` the rarest are evicted. So memory
is bounded whatever the size of the corpus, and time grows with its links.

    L  links of a batch      E  entries of the table
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from training.data.shards import Shards, Side
from training.run_directory import RunDirectory

ITERATIONS = 3
"""More would make the table too peaked for a shortlist."""
LINKS_PER_BATCH = 1 << 21
MOST_ENTRIES = 1 << 24
"""Half of a vocabulary of 32,000 for each of its ids; learning takes about a gigabyte."""
ADDED = 0.01
"""Pseudo-count added to each target id. Without it a rare source token is aligned to all target
tokens of its few sentences (Moore 2004, "Improving IBM Word-Alignment Model 1", section 4)."""


@dataclass(frozen=True, slots=True, eq=False)
class Lexicon:
    """p(target | source) of ids that occur together, sorted by source id, then by target id."""

    source_ids_E: NDArray[np.int64]
    target_ids_E: NDArray[np.int64]
    probabilities_E: NDArray[np.float64]

    @classmethod
    def load(cls, path: Path) -> Lexicon:
        with np.load(path) as arrays:
            return cls(**arrays)

    def save(self, path: Path) -> None:
        unfinished = path.with_name("lexicon.partial.npz")
        try:
            np.savez(unfinished, **{each.name: getattr(self, each.name) for each in fields(self)})
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)


def kept_lexicon(run: RunDirectory) -> Path:
    """The file of a prepared run's lexicon, which goes with the shards that it is of."""
    return run.shards("train") / "lexicon.npz"


def lexicon_of(run: RunDirectory) -> Lexicon:
    """The lexicon of a prepared run: the kept one, or a new one, which is not kept."""
    path = kept_lexicon(run)
    if path.exists():
        return Lexicon.load(path)
    tokenizers = run.tokenizers()
    # ``eos`` ends every source and translates nothing, so it serves as the empty source.
    return learn_lexicon(
        Shards.open(run.shards("train")),
        tokenizers.target.vocabulary_size,
        none_id=tokenizers.target.special_ids.eos,
        source_vocabulary_size=tokenizers.source.vocabulary_size,
    )


@dataclass(frozen=True, slots=True)
class _Links:
    """Every source token of some pairs with every target token of the same pair."""

    keys_L: NDArray[np.int64]
    """``source id * target vocabulary size + target id``."""
    targets_L: NDArray[np.int64]
    """Index of the target token in the batch."""
    num_targets: int


@dataclass(frozen=True, slots=True)
class _Reader:
    shards: Shards
    vocabulary_size: int
    """Size of the target vocabulary."""
    none_id: int
    links_per_batch: int

    def batches(self) -> Iterator[_Links]:
        source_lengths = self.shards.source.lengths + 1
        target_lengths = self.shards.target.lengths
        ends = np.cumsum(source_lengths * target_lengths)
        first = 0
        while first < len(self.shards):
            full = (ends[first - 1] if first else 0) + self.links_per_batch
            last = max(first + 1, int(np.searchsorted(ends, full, "right")))
            source = _tokens(self.shards.source, first, last)
            source = np.insert(source, np.cumsum(source_lengths[first:last] - 1), self.none_id)
            pairs = np.repeat(np.arange(first, last), source_lengths[first:last])
            # Sorted by source id, for locality of the look-ups in the table.
            order = np.argsort(source, kind="stable")
            source, pairs = source[order], pairs[order]
            partners = target_lengths[pairs]
            starts = self.shards.target.offsets[pairs] - self.shards.target.offsets[first]
            targets_L = np.repeat(starts - (np.cumsum(partners) - partners), partners)
            targets_L += np.arange(len(targets_L))
            target = _tokens(self.shards.target, first, last)
            keys_L = np.repeat(source * self.vocabulary_size, partners) + target[targets_L]
            yield _Links(keys_L, targets_L, len(target))
            first = last


def learn_lexicon(
    shards: Shards,
    vocabulary_size: int,
    none_id: int,
    *,
    source_vocabulary_size: int | None = None,
    iterations: int = ITERATIONS,
    links_per_batch: int = LINKS_PER_BATCH,
    most_entries: int = MOST_ENTRIES,
) -> Lexicon:
    """Fit Model 1 by expectation maximisation, starting from co-occurrence counts.

    ``none_id`` stands in every source sentence for the empty source; the table's row of that id
    holds target ids without a source. ``vocabulary_size`` is the target's, and also the source's
    unless given. The same shards give the same table, whatever the batches.
    """
    sizes = (source_vocabulary_size or vocabulary_size, vocabulary_size)
    reader = _Reader(shards, vocabulary_size, none_id, links_per_batch)
    keys_E, counts_E = _occurring_together(reader, most_entries)
    source_ids_E, target_ids_E = np.divmod(keys_E, vocabulary_size)
    probabilities_E = _probabilities(counts_E, source_ids_E, *sizes)
    for _ in tqdm(range(iterations), "learning translations of pieces", leave=False, disable=None):
        expected_E = np.zeros(len(keys_E))
        for links in reader.batches():
            places_L, known_L = _find(keys_E, links.keys_L)
            # Rare links are not in the table; a target token may have none at all.
            entries_L, targets_L = places_L[known_L], links.targets_L[known_L]
            likelihoods_L = probabilities_E[entries_L]
            evidence = np.bincount(targets_L, likelihoods_L, links.num_targets)
            np.add.at(expected_E, entries_L, likelihoods_L / evidence[targets_L])
        probabilities_E = _probabilities(expected_E, source_ids_E, *sizes)
    return Lexicon(source_ids_E, target_ids_E, probabilities_E)


def _occurring_together(
    reader: _Reader, most_entries: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Sorted keys of links, and their counts."""
    keys_E, counts_E = np.empty(0, np.int64), np.empty(0)
    for links in reader.batches():
        met, times = np.unique(links.keys_L, return_counts=True)
        places, known = _find(keys_E, met)
        counts_E[places[known]] += times[known]
        keys_E = np.insert(keys_E, places[~known], met[~known])
        counts_E = np.insert(counts_E, places[~known], times[~known])
        rare = 1
        while len(keys_E) > most_entries:
            kept_E = counts_E > rare
            keys_E, counts_E = keys_E[kept_E], counts_E[kept_E]
            rare += 1
    return keys_E, counts_E


def _find(
    keys_E: NDArray[np.int64], wanted: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The insertion index of each wanted key, and whether it is present."""
    places = np.searchsorted(keys_E, wanted)
    known = places < len(keys_E)
    known[known] = keys_E[places[known]] == wanted[known]
    return places, known


def _probabilities(
    counts_E: NDArray[np.float64], source_ids_E: NDArray[np.int64], sources: int, targets: int
) -> NDArray[np.float64]:
    totals = np.bincount(source_ids_E, counts_E, sources) + ADDED * targets
    probabilities_E: NDArray[np.float64] = (counts_E + ADDED) / totals[source_ids_E]
    return probabilities_E


def _tokens(side: Side, first: int, last: int) -> NDArray[np.int64]:
    return side.tokens[side.offsets[first] : side.offsets[last]].astype(np.int64)
