"""Word alignment from cross-attention weights.

T, S  target and source words in word weights; target and source positions in token weights
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

Span = tuple[int, int]
"""First character, and one past the last character."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Link:
    """Aligns target word number ``target`` with source word number ``source``."""

    source: int
    target: int
    weight: float
    """Share of the target word's attention that the source word has, from 0 to 1."""


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """Soft word alignment of one sentence.

    Spans are in order, do not overlap and count the sentences' characters. ``weights_TS[t, s]`` is
    the attention of target word ``t`` to source word ``s``. A row sums to 1, or to 0 if the model
    does not read the characters of its word.
    """

    source_words: tuple[Span, ...]
    target_words: tuple[Span, ...]
    weights_TS: Floats

    def links(self) -> tuple[Link, ...]:
        """Links each target word to its most attended source word, sorted by source, then target.

        A link needs more than half of the target word's attention, or must be mutual: no other
        target word attends more to that source word. On Multi30k this gives fewer errors than a
        link for every target word.
        """
        if not self.weights_TS.size:
            return ()
        best_T, best_S = self.weights_TS.argmax(1), self.weights_TS.argmax(0)
        weights_T = self.weights_TS.max(1)
        numbers_T = np.arange(len(best_T))
        kept_T = (weights_T > 0.5) | ((weights_T > 0) & (best_S[best_T] == numbers_T))
        links = [
            Link(int(best_T[target]), int(target), float(weights_T[target]))
            for target in numbers_T[kept_T]
        ]
        return tuple(sorted(links, key=lambda link: (link.source, link.target)))


@dataclass(frozen=True, slots=True)
class Side:
    """The spans of a text's words and of its tokens."""

    words: tuple[Span, ...]
    tokens: tuple[Span, ...]


def align_words(cross_TS: Floats, source: Side, target: Side, *, shifted: bool) -> Alignment:
    """Converts a token cross-attention map to a word alignment.

    Rows of the map are ``bos`` and the target's tokens. Columns are the source's tokens and
    ``eos``, which is ignored. The attention of a target token is the row that predicts it, or, if
    ``shifted``, the next row, whose decoder input is the token itself (Chen et al. 2020, "Accurate
    Word Alignment Induction from Neural Machine Translation"). Weights are summed over the tokens
    of a source word and averaged over the tokens of a target word.
    """
    rows, columns = len(target.tokens) + 1, len(source.tokens) + 1
    if cross_TS.shape != (rows, columns):
        raise ValueError(
            f"a map of {cross_TS.shape} does not fit {rows - 1} target and {columns - 1} source "
            "tokens"
        )
    of_tokens = cross_TS[1:, :-1] if shifted else cross_TS[:-1, :-1]
    weights_TS = (token_shares(target).T @ of_tokens @ token_shares(source)).astype(
        np.float32, copy=False
    )
    return Alignment(source.words, target.words, _normalised(weights_TS))


def token_shares(side: Side) -> Floats:
    """``[tokens, words]``: share of each token that lies in each word; rows sum to 1 or 0."""
    tokens_N2 = np.array(side.tokens, np.int64).reshape(-1, 2)
    words_W2 = np.array(side.words, np.int64).reshape(-1, 2)
    starts_N1, ends_N1 = tokens_N2[:, :1], tokens_N2[:, 1:]
    starts_W, ends_W = words_W2[:, 0], words_W2[:, 1]
    common_NW = np.minimum(ends_N1, ends_W) - np.maximum(starts_N1, starts_W)
    common_NW = common_NW.clip(0)
    # Blanks, and tokens that are a part of a character, belong to the word after them.
    introduced_NW = (starts_W <= ends_N1) & (ends_N1 < ends_W)
    nothing_N1 = common_NW.sum(1, keepdims=True) == 0
    return _normalised(np.where(nothing_N1, introduced_NW, common_NW).astype(np.float32))


def _normalised(rows: Floats) -> Floats:
    """Rows scaled to sum to 1; rows of zeros stay."""
    totals = rows.sum(1, keepdims=True)
    normalised: Floats = np.divide(rows, totals, out=np.zeros_like(rows), where=totals > 0)
    return normalised


def pharaoh(links: Sequence[Link]) -> str:
    """Links in Pharaoh's notation, ``0-0 1-2``: source word, target word."""
    return " ".join(f"{link.source}-{link.target}" for link in links)


def overlapping(spans: Sequence[Sequence[Any]], start: int, end: int) -> slice:
    """The slice of ordered spans, by their first two numbers, that overlap ``start`` to ``end``."""
    first = bisect_right(spans, start, key=itemgetter(1))
    return slice(first, max(first, bisect_left(spans, end, key=itemgetter(0))))
