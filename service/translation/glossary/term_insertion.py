"""Inserts glossary terms that constrained decoding missed, and updates the word alignment.

The vocabulary may lack a term's letters, the length limit may leave no room for it, and
hypotheses that were not forced may lack it. A forced hypothesis may repeat the term or continue
its last word. A missing term replaces the target words that attend to it. Words after a term that
repeat it, and letters joined to it, are removed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from service.translation.alignment import Alignment, Span
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


def insist(
    translation: str,
    said: Sequence[TermOccurrence],
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
    places = found_in(translation, said)
    taken = [place for place in places if place is not None]
    if forced.given and translation.startswith(forced.given):
        taken.append((0, len(forced.given)))
    edits = []
    # Terms already present come first, so that no missing term is inserted into them.
    for each, place in sorted(zip(said, places, strict=True), key=lambda pair: pair[1] is None):
        looking = _Looking(alignment, each.span)
        if place is None:
            start, end = looking.best(taken, len(translation))
        else:
            start, end = place
            end = looking.behind(end, taken, translation, forced.displaced)
        taken.append((start, end))
        edits.append(Edit(start, end, each.term.target, each.span))
    return edited(translation, alignment, sorted(edits, key=lambda edit: (edit.start, edit.end)))


def displaced(
    translation: str, said: Sequence[TermOccurrence], alignment: Alignment
) -> frozenset[str]:
    """The words of a translation that it has instead of its missing terms."""
    missing = [
        each for each, place in zip(said, found_in(translation, said), strict=True) if place is None
    ]
    spans = [_Looking(alignment, each.span).best((), len(translation)) for each in missing]
    return frozenset(
        translation[start:end]
        for start, end in alignment.target_words
        if _meets((start, end), spans)
    )


class _Looking:
    """Finds the target words that attend more to a source span than to any word outside it."""

    def __init__(self, alignment: Alignment, span: Span) -> None:
        self._words = alignment.target_words
        columns = [
            number
            for number, (start, end) in enumerate(alignment.source_words)
            if start < span[1] and span[0] < end
        ]
        weights_TS = alignment.weights_TS
        self._looks_T = weights_TS[:, columns].sum(axis=1)
        elsewhere_TS = np.delete(weights_TS, columns, axis=1)
        self._most_T = self._looks_T > elsewhere_TS.max(axis=1, initial=0.0)

    def best(self, taken: Sequence[Span], end: int) -> Span:
        """The span of words around the one that attends most to the source span.

        An empty span before that word if it attends more to a word elsewhere.
        """
        free = [n for n, word in enumerate(self._words) if not _meets(word, taken)]
        if not free:
            return end, end
        best = max(free, key=lambda number: float(self._looks_T[number]))
        if not self._most_T[best]:
            return (self._words[best][0],) * 2
        first = last = best
        while first - 1 in free and self._most_T[first - 1]:
            first -= 1
        while last + 1 in free and self._most_T[last + 1]:
            last += 1
        return self._words[first][0], self._words[last][1]

    def behind(
        self, place: int, taken: Sequence[Span], translation: str, displaced: Collection[str]
    ) -> int:
        """The end of the words right after ``place`` that attend to the span or are displaced."""
        end = place
        for number, word in enumerate(self._words):
            if word[0] < place:
                continue
            text, gap = translation[slice(*word)], translation[end : word[0]]
            looks = self._most_T[number] or text in displaced
            if gap.strip() or not gap or not looks or is_punctuation(text) or _meets(word, taken):
                break
            end = word[1]
        return end


def _meets(word: Span, taken: Sequence[Span]) -> bool:
    """Whether a word overlaps a taken span, or follows an empty one."""
    return any(
        (word[0] < end and start < word[1]) or word[0] == start == end for start, end in taken
    )
