"""Adapts the translation of a similar unit to a sentence: exchanges some words, keeps the others.

The words in which both sources differ are found in both translations by word alignment. Those of
the machine translation replace those of the unit.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from service.text.alignment import Alignment, Span
from service.text.text_edits import Edit, applied
from service.text.words import is_punctuation


@dataclass(frozen=True)
class AlignedTexts:
    """A source, its translation, and their word alignment."""

    source: str
    target: str
    alignment: Alignment

    @cached_property
    def source_words(self) -> list[str]:
        return [self.source[slice(*span)] for span in self.alignment.source_words]

    @cached_property
    def source_of_target(self) -> NDArray[np.intp]:
        """Number of the source word of each target word: an equal one, else by attention; or -1."""
        weights_TS = self.alignment.weights_TS
        words = self.source_words
        source_of_target = np.full(len(self.alignment.target_words), -1)
        for number, span in enumerate(self.alignment.target_words):
            word = self.target[slice(*span)]
            if words and weights_TS[number].any():
                source_of_target[number] = weights_TS[number].argmax()
            equal = [n for n, each in enumerate(words) if each == word and not is_punctuation(word)]
            if equal:
                source_of_target[number] = max(equal, key=lambda n: weights_TS[number, n])
        return source_of_target

    def aligned(self, first: int, last: int) -> list[int]:
        """Numbers of the target words of a range of source words, without marks unless all are."""
        found = np.flatnonzero(
            (first <= self.source_of_target) & (self.source_of_target < last)
        ).tolist()
        return [word for word in found if not self._is_mark(word)] or found

    def _is_mark(self, word: int) -> bool:
        return is_punctuation(self.target[slice(*self.alignment.target_words[word])])

    def span(self, words: Sequence[int]) -> Span | None:
        """The characters of target words; ``None`` if words are between them, but for marks."""
        between = set(range(words[0], words[-1])) - set(words)
        if not all(map(self._is_mark, between)):
            return None
        spans = self.alignment.target_words
        return spans[words[0]][0], spans[words[-1]][1]


def adapted(unit: AlignedTexts, sentence: AlignedTexts) -> str | None:
    """The translation of ``unit``, changed where its source differs from that of ``sentence``.

    ``None`` if the words of a difference are apart in a translation, or if the place for further
    words is unknown.
    """
    matcher = SequenceMatcher(None, unit.source_words, sentence.source_words, autojunk=False)
    edits: list[Edit] = []
    for kind, first, last, first_new, last_new in matcher.get_opcodes():
        if kind != "equal":
            edit = _edit(unit, (first, last), sentence, (first_new, last_new))
            if edit is None:
                return None
            insort(edits, edit, key=lambda each: (each.start, each.end))
    if any(before.end > after.start for before, after in pairwise(edits)):
        return None
    return applied(unit.target, edits)


def _edit(unit: AlignedTexts, old: Span, sentence: AlignedTexts, new: Span) -> Edit | None:
    """The edit for one difference: words ``old`` of the unit's source are ``new`` in the other.

    There is none for words without a counterpart at the begin or with marks, whose neighbours
    would have to change.
    """
    words = unit.source_words[slice(*old)], sentence.source_words[slice(*new)]
    if not all(words) and (old[0] == 0 or any(map(is_punctuation, words[0] + words[1]))):
        return None
    sides = (unit, old, unit.aligned(*old)), (sentence, new, sentence.aligned(*new))
    for texts, source, target in sides:
        # Words that are in neither translation cannot be exchanged.
        if not target and not all(map(is_punctuation, texts.source_words[slice(*source)])):
            return None
    spans = [texts.span(target) if target else None for texts, _, target in sides]
    if any(target and span is None for (_, _, target), span in zip(sides, spans, strict=True)):
        return None
    text = "" if spans[1] is None else sentence.target[slice(*spans[1])]
    place = spans[0]
    if place is None:
        place = _after(unit, old[0]) if text else (0, 0)
        if place is None:
            return None
        start, end = place
        return Edit(start, end, f" {text}" if start else text and f"{text} ")
    start, end = place
    if text:
        return Edit(start, end, _in_case(text, unit.target[start:end], start))
    return Edit(len(unit.target[:start].rstrip()), end, "")


def _after(unit: AlignedTexts, source: int) -> Span | None:
    """The place behind the translation of the source word before this one."""
    if source == 0:
        return 0, 0
    before = unit.aligned(source - 1, source)
    if not before:
        return None
    end = unit.alignment.target_words[before[-1]][1]
    return end, end


def _in_case(text: str, replaced: str, start: int) -> str:
    """The text with a first letter like that of what it replaces, at the start of a sentence."""
    if start == 0 and replaced[:1].isupper():
        return text[:1].upper() + text[1:]
    return text
