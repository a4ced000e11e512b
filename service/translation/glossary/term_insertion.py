"""Replaces the words aligned with a missing glossary term by the term; updates the alignment.

The vocabulary may lack a term's letters, the length limit may leave no room for it, and
hypotheses that were not forced may lack it. A forced hypothesis may repeat the term or continue
its last word. A missing term replaces the target words that attend to it. Words after a term that
repeat it, and letters joined to it, are removed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from service.translation.alignment import Alignment, Floats, Span
from service.translation.edits import Edit, Edited, edited
from service.translation.glossary.term_index import TermOccurrence
from service.translation.glossary.terms import found_in, surplus
from service.translation.words import is_punctuation


@dataclass(frozen=True, slots=True)
class Forced:
    """The forced beginning of a translation."""

    given: str = ""
    """The part that the request forces."""
    beginning: str = ""
    """The whole beginning; ends with a term, if any was forced."""
    displaced: frozenset[str] = frozenset()
    """Words that the first translation has instead of the terms."""


def insert_terms(
    translation: str,
    occurrences: Sequence[TermOccurrence],
    alignment: Alignment,
    forced: Forced = Forced(),
) -> Edited:
    """The translation with every term in it; ``written`` has the spans of the terms."""
    if forced.beginning != forced.given and translation.startswith(forced.beginning):
        begun = len(forced.beginning)
        stuck = surplus(forced.beginning, translation[begun:])
        if stuck:
            cut = edited(translation, alignment, [Edit(begun, begun + len(stuck), "")])
            translation, alignment = cut.text, cut.alignment
    places = found_in(translation, occurrences)
    taken = [place for place in places if place is not None]
    if forced.given and translation.startswith(forced.given):
        taken.append((0, len(forced.given)))
    edits = []
    words = _AlignedWords(alignment)
    for span in taken:
        words.take(span)
    # Terms already present come first, so that no missing term is inserted into them.
    for each, place in sorted(
        zip(occurrences, places, strict=True), key=lambda pair: pair[1] is None
    ):
        if place is None:
            start, end = words.best(each.span, len(translation))
        else:
            start, end = place
            end = words.end_after(end, translation, forced.displaced)
        words.take((start, end))
        edits.append(Edit(start, end, each.term.target, each.span))
    return edited(translation, alignment, sorted(edits, key=lambda edit: (edit.start, edit.end)))


def displaced(
    translation: str, occurrences: Sequence[TermOccurrence], alignment: Alignment
) -> frozenset[str]:
    """The words of a translation that it has instead of its missing terms."""
    missing = [
        each
        for each, place in zip(occurrences, found_in(translation, occurrences), strict=True)
        if place is None
    ]
    if not missing:
        return frozenset()
    words = _AlignedWords(alignment)
    spans = [words.best(each.span, len(translation)) for each in missing]
    for span in spans:
        words.take(span)
    return frozenset(
        translation[start:end]
        for (start, end), is_taken in zip(alignment.target_words, words.taken_T, strict=True)
        if is_taken
    )


class _AlignedWords:
    """Finds the target words that attend more to a source span than to any word outside it."""

    def __init__(self, alignment: Alignment) -> None:
        self._words = alignment.target_words
        self._starts = [start for start, _ in alignment.target_words]
        self._ends = [end for _, end in alignment.target_words]
        self._source_starts = [start for start, _ in alignment.source_words]
        self._source_ends = [end for _, end in alignment.source_words]
        padded_TS = np.pad(alignment.weights_TS, ((0, 0), (1, 1)))
        self._before_TS = np.maximum.accumulate(padded_TS, axis=1)
        """The highest attention to any source word before each, and after each."""
        self._after_TS = np.maximum.accumulate(padded_TS[:, ::-1], axis=1)[:, ::-1]
        self._weights_TS = alignment.weights_TS
        self.taken_T = np.zeros(len(self._words), np.bool_)
        """Words that overlap a taken span, or follow an empty one."""

    def take(self, span: Span) -> None:
        start, end = span
        first, last = bisect_right(self._ends, start), bisect_left(self._starts, end)
        if start == end and first < len(self._words) and self._starts[first] == start:
            last = first + 1
        self.taken_T[first:last] = True

    def best(self, span: Span, end: int) -> Span:
        """The free span of words around the one that attends most to source ``span``.

        An empty span before that word if it attends more to a word elsewhere.
        """
        if self.taken_T.all():
            return end, end
        attention_T, elsewhere_T = self._attention(span)
        best = int(np.where(self.taken_T, -np.inf, attention_T).argmax())
        if attention_T[best] <= elsewhere_T[best]:
            return (self._starts[best],) * 2
        joins_T = (attention_T > elsewhere_T) & ~self.taken_T
        first = last = best
        while first > 0 and joins_T[first - 1]:
            first -= 1
        while last + 1 < len(joins_T) and joins_T[last + 1]:
            last += 1
        return self._starts[first], self._ends[last]

    def end_after(self, place: int, translation: str, displaced: Collection[str]) -> int:
        """The end of the free words after ``place`` that the first translation has for the term.

        Attention does not tell: after a term of rare pieces, the next word may attend to its
        source.
        """
        end = place
        for number in range(bisect_left(self._starts, place), len(self._words)):
            word = self._words[number]
            text, gap = translation[slice(*word)], translation[end : word[0]]
            taken = self.taken_T[number]
            if gap.strip() or not gap or text not in displaced or is_punctuation(text) or taken:
                break
            end = word[1]
        return end

    def _attention(self, span: Span) -> tuple[Floats, Floats]:
        """Each word's attention to a source span, and the most to a word elsewhere."""
        first = bisect_right(self._source_ends, span[0])
        last = max(first, bisect_left(self._source_starts, span[1]))
        attention_T = self._weights_TS[:, first:last].sum(axis=1)
        return attention_T, np.maximum(self._before_TS[:, first], self._after_TS[:, last + 1])
