"""Inserts glossary terms into a translation by word alignment; updates the alignment.

A missing term replaces the target words that attend to it. No other word changes. Decoding again
with the term as a forced prefix keeps less of a translation (docs/log.md, 2026-11-24). Terms are
not inflected.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence

import numpy as np

from service.text.alignment import Alignment, Floats, Span
from service.text.glossary.term_index import TermOccurrence, is_free, joined
from service.text.text_edits import Edit, Edited, edited
from service.text.types import Term
from service.text.words import is_punctuation

_LEAST_ATTENTION = 0.6
"""Least attention to a term of words beside the one that attends to it most. At 0.6 articles stay,
and the parts of a compound still attend enough (docs/log.md, 2026-11-24)."""

_MARKS = re.compile(r"(\W*)(?:.*\w)?(\W*)", re.DOTALL)
"""The marks at both ends of a term, such as ``C#`` and ``(new)``."""


def insert_terms(
    translation: str,
    occurrences: Sequence[TermOccurrence],
    alignment: Alignment,
    prefix: str = "",
) -> Edited:
    """The translation with every term in it; ``written`` has the spans of the terms.

    ``prefix`` is the beginning that the request forces. It is kept.
    """
    places = found_in(translation, occurrences)
    words = _AlignedWords(alignment, translation)
    for place in places:
        if place is not None:
            words.take(place)
    if prefix and translation.startswith(prefix):
        words.take((0, len(prefix)))
    edits = []
    for each, place in zip(occurrences, places, strict=True):
        start, end = place or words.with_marks(words.best(each.span), each.term)
        words.take((start, end))
        edits.append(Edit(start, end, each.term.target, each.span))
    return edited(translation, alignment, sorted(edits, key=lambda edit: (edit.start, edit.end)))


def found_in(translation: str, occurrences: Sequence[TermOccurrence]) -> list[Span | None]:
    """The span of each term in a translation, without overlaps; ``None`` if it does not occur."""
    places: list[Span | None] = [None] * len(occurrences)
    taken: list[Span] = []
    # Equal terms share their spans, because one that is taken stays taken.
    spans = {each.term.target: iter(_spans(each.term.target, translation)) for each in occurrences}
    for number, each in sorted(
        enumerate(occurrences), key=lambda entry: -len(entry[1].term.target)
    ):
        place = next((span for span in spans[each.term.target] if is_free(span, taken)), None)
        if place is not None:
            places[number] = place
            insort(taken, place)
    return places


class _AlignedWords:
    """Finds the target words that attend more to a source span than to any word outside it."""

    def __init__(self, alignment: Alignment, translation: str) -> None:
        self._translation = translation
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

    def best(self, span: Span) -> Span:
        """The free span of words around the one that attends most to source ``span``.

        An empty span before that word if it attends more to a word elsewhere. The span has no
        punctuation marks at its ends if it has words, because marks often attend to a neighbour.
        """
        if self.taken_T.all():
            return (len(self._translation),) * 2
        attention_T, elsewhere_T = self._attention(span)
        best = int(np.where(self.taken_T, -np.inf, attention_T).argmax())
        if attention_T[best] <= elsewhere_T[best]:
            return (self._starts[best],) * 2
        joins_T = (attention_T > _LEAST_ATTENTION) & (attention_T > elsewhere_T) & ~self.taken_T
        first = last = best
        while first > 0 and joins_T[first - 1]:
            first -= 1
        while last + 1 < len(joins_T) and joins_T[last + 1]:
            last += 1
        without_marks = [n for n in range(first, last + 1) if not self._is_punctuation(n)]
        if without_marks:
            return self._starts[without_marks[0]], self._ends[without_marks[-1]]
        # A mark after a blank may be the translation, such as "%", but not one joined to a word.
        start = self._starts[best]
        return start, start if self._translation[start - 1 : start].isalnum() else self._ends[best]

    def with_marks(self, span: Span, term: Term) -> Span:
        """A span of words with the marks around it that are those of the term's source.

        Marks at the end of a sentence stay unless the term has others instead.
        """
        start, end = span
        marks = _MARKS.fullmatch(term.source)
        if start == end or marks is None:
            return span
        before, after = marks.groups()
        if self._translation[:start].endswith(before) and self._is_free(start - len(before), start):
            start -= len(before)
        is_end = end + len(after) == len(self._translation.rstrip())
        if (
            self._translation.startswith(after, end)
            and self._is_free(end, end + len(after))
            and (not is_end or term.target.endswith(after))
        ):
            end += len(after)
        return start, end

    def _is_free(self, start: int, end: int) -> bool:
        first, last = bisect_right(self._ends, start), bisect_left(self._starts, end)
        return not self.taken_T[first:last].any()

    def _is_punctuation(self, word: int) -> bool:
        return is_punctuation(self._translation[slice(*self._words[word])])

    def _attention(self, span: Span) -> tuple[Floats, Floats]:
        """Each word's attention to a source span, and the most to a word elsewhere."""
        first = bisect_right(self._source_ends, span[0])
        last = max(first, bisect_left(self._source_starts, span[1]))
        attention_T = self._weights_TS[:, first:last].sum(axis=1)
        return attention_T, np.maximum(self._before_TS[:, first], self._after_TS[:, last + 1])


def _spans(word: str, text: str) -> list[Span]:
    """Spans of ``word``, one or several words, as whole words in ``text``."""
    spans = []
    start = text.find(word)
    while start >= 0:
        end = start + len(word)
        whole = not (joined(text, start) or joined(text, end))
        if whole:
            spans.append((start, end))
        start = text.find(word, end if whole else start + 1)
    return spans
