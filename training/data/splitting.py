"""Splits pieces of sentences, anew in every epoch, so that a word is seen in several spellings.

A piece becomes two pieces of the vocabulary that spell it, as if BPE-dropout (Provilkov et al.,
2020) had dropped its last merge. No merges are needed: tokens on disk are split for vocabularies of
every kind, a million a second.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np
from numpy.typing import NDArray

from models.bundle.tokenizer import Tokenizers
from training.data.shards import Shards, Side

Indices = NDArray[np.int64]


class Splitter:
    def __init__(
        self, tokenizers: Tokenizers, rate: float, unwritable: Set[int] = frozenset()
    ) -> None:
        """``rate`` is the probability that a piece which can be split is split. ``unwritable`` are
        target ids that are never parts."""
        self._rate = rate
        written = [
            "" if number in unwritable else piece
            for number, piece in enumerate(tokenizers.target.ordinary_pieces())
        ]
        self._target = _Splits(written)
        shared = tokenizers.target is tokenizers.source
        self._source = self._target if shared else _Splits(tokenizers.source.ordinary_pieces())

    def split(
        self, shards: Shards, indices: Indices, most: tuple[int, int], seed: Sequence[int]
    ) -> Shards:
        """The pairs ``indices``, with pieces split; equal for equal arguments.

        ``most`` are the lengths beyond which a side is split no further.
        """
        rng = np.random.default_rng(seed)
        return Shards(
            self._source.apply(shards.source, indices, self._rate, most[0], rng),
            self._target.apply(shards.target, indices, self._rate, most[1], rng),
        )


class _Splits:
    """Pairs of pieces that spell each piece of a vocabulary."""

    def __init__(self, pieces: Sequence[str]) -> None:
        """Pieces that are empty are neither split nor parts of others."""
        ids = {piece: number for number, piece in enumerate(pieces) if piece}
        found = [
            [
                (ids[piece[:n]], ids[piece[n:]])
                for n in range(1, len(piece))
                if piece[:n] in ids and piece[n:] in ids
            ]
            for piece in pieces
        ]
        self._counts = np.array([len(each) for each in found])
        self._begins = np.cumsum(self._counts) - self._counts
        pairs = [pair for each in found for pair in each]
        self._pairs = np.array(pairs, np.int32).reshape(-1, 2)

    def apply(
        self, side: Side, indices: Indices, rate: float, most: int, rng: np.random.Generator
    ) -> Side:
        lengths = side.offsets[indices + 1] - side.offsets[indices]
        row = np.repeat(np.arange(len(indices)), lengths)
        column = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        tokens = side.tokens[side.offsets[indices][row] + column]
        (chosen,) = np.nonzero((rng.random(len(tokens)) < rate) & (self._counts[tokens] > 0))
        # Where a row has no room for all of its splits, some of them at random.
        chosen = chosen[np.lexsort((rng.random(len(chosen)), row[chosen]))]
        rank = np.arange(len(chosen)) - np.searchsorted(row[chosen], row[chosen])
        chosen = np.sort(chosen[rank < most - lengths[row[chosen]]])
        which = (rng.random(len(chosen)) * self._counts[tokens[chosen]]).astype(np.int64)
        pairs = self._pairs[self._begins[tokens[chosen]] + which]
        parts = np.ones(len(tokens), np.int64)
        parts[chosen] = 2
        split = np.repeat(tokens, parts)
        place = (np.cumsum(parts) - parts)[chosen]
        split[place], split[place + 1] = pairs[:, 0], pairs[:, 1]
        lengths = lengths + np.bincount(row[chosen], minlength=len(indices))
        return Side(split, np.concatenate(([0], np.cumsum(lengths))))
