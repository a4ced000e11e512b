"""Prepares word alignments for tag placement: finite weights, words split at tags inside them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from service.text.alignment import Alignment, Span
from service.text.words import words

_MOST_REFINED = 32


@dataclass(frozen=True, slots=True, eq=False)
class Attention:
    """Words of both sides in order; every non-blank character of the target is in a word.

    ``weights_TS`` are finite and not negative.
    """

    source_words: tuple[Span, ...]
    target_words: tuple[Span, ...]
    weights_TS: NDArray[np.float32]


def attention(
    source: str, target: str, alignment: Alignment | None, whole: Sequence[Span] = ()
) -> Attention:
    """An alignment for ``words(target, whole)``; each span in ``whole`` is one word.

    Without ``alignment``, each target word is aligned with the source word at the same relative
    position, counted in characters.
    """
    target_words = words(target, whole)
    if alignment is None:
        source_words = words(source)
        return Attention(
            source_words, target_words, _proportional(source_words, target_words, source, target)
        )
    shape = (len(alignment.target_words), len(alignment.source_words))
    if alignment.weights_TS.shape != shape:
        raise ValueError(f"weights of shape {alignment.weights_TS.shape} for {shape} words")
    weights_TS = np.nan_to_num(alignment.weights_TS, nan=0.0, posinf=1.0, neginf=0.0)
    weights_TS = np.clip(weights_TS, 0.0, 1.0).astype(np.float32, copy=False)
    if target_words != alignment.target_words:
        weights_TS = _rows_for(target_words, alignment.target_words, weights_TS)
    return Attention(alignment.source_words, target_words, weights_TS)


def refined(aligned: Attention, source: str, target: str, borders: Iterable[int]) -> Attention:
    """Split words at tags inside them, as in H<sub>2</sub>O, if the target has the same word.

    The same number in it is enough, as in 1<sup>st</sup>. At most ``_MOST_REFINED`` words are
    split, because each one is compared with every target word; tags in others move to their edges.
    """
    inside: dict[int, list[int]] = {}
    starts = [start for start, _ in aligned.source_words]
    for border in sorted(set(borders)):
        number = bisect_right(starts, border) - 1
        if number >= 0 and starts[number] < border < aligned.source_words[number][1]:
            inside.setdefault(number, []).append(border)
    for number in sorted(inside)[:_MOST_REFINED][::-1]:
        start, end = aligned.source_words[number]
        cuts = [cut - start for cut in inside[number]]
        found = [
            (float(aligned.weights_TS[row, number]), row, target_cuts)
            for row, (first, last) in enumerate(aligned.target_words)
            if (target_cuts := _alike(source[start:end], cuts, target[first:last]))
        ]
        if found:
            _, row, target_cuts = max(found)
            aligned = _split(aligned, (number, cuts), (row, target_cuts))
    return aligned


def _alike(source: str, cuts: list[int], target: str) -> list[int]:
    """Offsets that split a target word as ``cuts`` split the source word; empty if unlike."""
    if source == target:
        return cuts
    head, tail = source[: cuts[0]], source[cuts[-1] :]
    if len(cuts) == 1 and len(target) > len(tail) and tail.isdigit() and target.endswith(tail):
        return [len(target) - len(tail)]
    if len(cuts) == 1 and len(target) > len(head) and head.isdigit() and target.startswith(head):
        return [len(head)]
    return []


def _split(
    aligned: Attention, source: tuple[int, Sequence[int]], target: tuple[int, Sequence[int]]
) -> Attention:
    """Split both words into the same number of parts, each aligned with its counterpart only."""
    (column, source_cuts), (row, target_cuts) = source, target
    parts = len(source_cuts) + 1
    rows, columns = aligned.weights_TS.shape
    weights_TS = aligned.weights_TS.copy()
    weights_TS[:, column] /= parts
    weights_TS = weights_TS.repeat(np.where(np.arange(columns) == column, parts, 1), axis=1)
    weights_TS = weights_TS.repeat(np.where(np.arange(rows) == row, parts, 1), axis=0)
    weights_TS[row : row + parts] = 0.0
    weights_TS[np.arange(row, row + parts), np.arange(column, column + parts)] = 1.0
    return Attention(
        _with_parts(aligned.source_words, column, source_cuts),
        _with_parts(aligned.target_words, row, target_cuts),
        weights_TS,
    )


def _with_parts(spans: tuple[Span, ...], number: int, cuts: Sequence[int]) -> tuple[Span, ...]:
    start, end = spans[number]
    borders = [start, *(start + cut for cut in cuts), end]
    parts = pairwise(borders)
    return (*spans[:number], *parts, *spans[number + 1 :])


def _proportional(
    source_words: Sequence[Span], target_words: Sequence[Span], source: str, target: str
) -> NDArray[np.float32]:
    weights_TS = np.zeros((len(target_words), len(source_words)), dtype=np.float32)
    if source_words and target_words:
        ends = np.array([end for _, end in source_words]) / len(source)
        middles = np.array([start + end for start, end in target_words]) / (2 * len(target))
        chosen = np.minimum(np.searchsorted(ends, middles), len(source_words) - 1)
        weights_TS[np.arange(len(target_words)), chosen] = 1.0
    return weights_TS


def _rows_for(
    new_words: Sequence[Span], old_words: Sequence[Span], weights_TS: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Mean of the rows of the old words that each new word overlaps."""
    rows = np.zeros((len(new_words), weights_TS.shape[1]), dtype=np.float32)
    first = 0
    for number, (start, end) in enumerate(new_words):
        while first < len(old_words) and old_words[first][1] <= start:
            first += 1
        last = first
        while last < len(old_words) and old_words[last][0] < end:
            last += 1
        if first < last:
            rows[number] = weights_TS[first:last].mean(axis=0)
    return rows
