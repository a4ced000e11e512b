"""Which words of a translation come from which words of its source.

An alignment is read off cross-attention. Knows spans and weights; nothing of models.

    T, S  target and source words, where weights are of words; else target and source positions
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Span = tuple[int, int]
"""Characters from the first, up to but without the second."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Link:
    """Word number ``target`` of a translation comes from word number ``source`` of its source."""

    source: int
    target: int
    weight: float
    """Between 0 and 1: the share of the attention to words that this one had."""


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """Soft word alignment of one sentence.

    Spans are in order, do not overlap and are of the sentences' own characters.
    ``weights_TS[t, s]`` says how much target word ``t`` looked at source word ``s``. A row sums to
    1, or to 0 if its word is made of characters that the model does not read.
    """

    source_words: tuple[Span, ...]
    target_words: tuple[Span, ...]
    weights_TS: Floats

    def links(self) -> tuple[Link, ...]:
        """Target words with the source word they looked at most, by source, then by target.

        A link needs more than half of the target word's attention, or to be mutual: no other target
        word looked more at that source word. On Multi30k that makes fewer errors than a link for
        every target word does.
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
    """The words of a text, and the characters that each of its tokens has."""

    words: tuple[Span, ...]
    tokens: tuple[Span, ...]


def align_words(cross_TS: Floats, source: Side, target: Side, *, shifted: bool) -> Alignment:
    """The alignment of words that a map of cross-attention between tokens amounts to.

    Rows of the map are ``bos`` and the target's tokens, columns are the source's tokens and
    ``eos``, which is left out. What a token looks at is found where the decoder predicts it, or if
    ``shifted`` one row further, where it is fed: by then the decoder knows which token it is (Chen
    et al. 2020, "Accurate Word Alignment Induction from Neural Machine Translation"). A word is
    looked at as much as its tokens together, and looks as its tokens do on average.
    """
    rows, columns = len(target.tokens) + 1, len(source.tokens) + 1
    if cross_TS.shape != (rows, columns):
        raise ValueError(
            f"a map of {cross_TS.shape} does not fit {rows - 1} target and {columns - 1} source "
            "tokens"
        )
    of_tokens = cross_TS[1:, :-1] if shifted else cross_TS[:-1, :-1]
    weights_TS = (_shares(target).T @ of_tokens @ _shares(source)).astype(np.float32, copy=False)
    return Alignment(source.words, target.words, _normalised(weights_TS))


def _shares(side: Side) -> Floats:
    """``[tokens, words]``: which part of each token belongs to which word; rows sum to 1 or 0."""
    tokens_N2 = np.array(side.tokens, np.int64).reshape(-1, 2)
    words_W2 = np.array(side.words, np.int64).reshape(-1, 2)
    starts_N1, ends_N1 = tokens_N2[:, :1], tokens_N2[:, 1:]
    starts_W, ends_W = words_W2[:, 0], words_W2[:, 1]
    common_NW = np.minimum(ends_N1, ends_W) - np.maximum(starts_N1, starts_W)
    common_NW = common_NW.clip(0)
    # Blanks belong to the word they introduce, and so does what is only a part of a character.
    introduced_NW = (starts_W <= ends_N1) & (ends_N1 < ends_W)
    nothing_N1 = common_NW.sum(1, keepdims=True) == 0
    return _normalised(np.where(nothing_N1, introduced_NW, common_NW).astype(np.float32))


def _normalised(rows: Floats) -> Floats:
    """Rows that sum to 1, but for those that are all 0."""
    totals = rows.sum(1, keepdims=True)
    normalised: Floats = np.divide(rows, totals, out=np.zeros_like(rows), where=totals > 0)
    return normalised


def pharaoh(links: Sequence[Link]) -> str:
    """Links in Pharaoh's notation, ``0-0 1-2``: source word, target word."""
    return " ".join(f"{link.source}-{link.target}" for link in links)
