"""Index of a glossary's source terms, and a bounded cache of such indexes.

The terms are sorted, and each one is linked to the longest other term that it begins with. A binary
search at a position of a sentence then finds the terms that occur there, whatever their number.
Case is ignored only for terms that a sentence does not have in their own case. Terms and sentences
are compared as ``visible`` returns them, so that a soft hyphen or a no-break space hides no term.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from models.text import visible, visible_origins
from service.text.alignment import Span
from service.text.types import Term
from service.text.words import INSIDE_WORD

_BYTES_PER_TERM = 700
_BYTES_PER_CHARACTER = 8
"""Upper bounds: a term is kept twice, and a character of a string has up to 4 bytes."""


@dataclass(frozen=True, slots=True)
class TermOccurrence:
    """A term and its span in a sentence."""

    term: Term
    span: Span


@dataclass(frozen=True, slots=True)
class _Numbered:
    number: int
    term: Term
    source: str
    """Source of the term, as ``visible`` returns it."""


class TermIndex:
    """Finds terms in sentences. Immutable."""

    def __init__(self, terms: Sequence[Term] = ()) -> None:
        self._terms: dict[str, list[_Numbered]] = {}
        for number, term in enumerate(terms):
            if source := visible(term.source):
                numbered = _Numbered(number, term, source)
                self._terms.setdefault(_folded(source), []).append(numbered)
        self._sources = sorted(self._terms)
        self._prefixes = _longest_prefixes(self._sources)
        self._longest = max(map(len, self._sources), default=0)

    def occur_in(self, sentence: str) -> bool:
        """Whether a term occurs in a sentence as a whole word, in any case."""
        return bool(self._sources) and next(self._found(visible(sentence)), None) is not None

    def occurrences_in(self, sentence: str) -> tuple[TermOccurrence, ...]:
        """The terms that occur in a sentence as whole words, the longest of those that overlap."""
        if not self._sources:
            return ()
        read = visible(sentence)
        occurrences = self._occurrences_in(read)
        if read == sentence or not occurrences:
            return occurrences
        origins = visible_origins(sentence)
        return tuple(
            replace(each, span=(origins[each.span[0]][0], origins[each.span[1] - 1][1]))
            for each in occurrences
        )

    def _occurrences_in(self, sentence: str) -> tuple[TermOccurrence, ...]:
        found = [
            (-len(each.source), each.number, start, each)
            for start, source in self._found(sentence)
            for each in self._terms[source]
        ]
        in_own_case = {
            number for _, number, start, each in found if sentence.startswith(each.source, start)
        }
        taken: list[Span] = []
        occurrences = []
        for length, number, start, each in sorted(found, key=lambda one: one[:3]):
            if number in in_own_case and not sentence.startswith(each.source, start):
                continue
            span = start, start - length
            if is_free(span, taken):
                insort(taken, span)
                occurrences.append(TermOccurrence(each.term, span))
        return tuple(sorted(occurrences, key=lambda occurrence: occurrence.span))

    def _found(self, sentence: str) -> Iterator[tuple[int, str]]:
        """Start and folded source of every whole-word match, overlapping ones included."""
        folded, inside = _folded(sentence), _inside_words(sentence)
        for start in range(len(folded)):
            if inside[start]:
                continue
            following = folded[start : start + self._longest]
            number = bisect_right(self._sources, following) - 1
            while number >= 0:
                source = self._sources[number]
                if following.startswith(source) and not inside[start + len(source)]:
                    yield start, source
                number = self._prefixes[number]


class TermIndexes:
    """LRU cache of indexes, by the terms. Thread-safe.

    The very tuple of the last request with these terms is found without hashing them.
    """

    def __init__(self, max_bytes: int = 32 << 20) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        """Indexes by hash of the terms."""
        self._identified: dict[int, int] = {}
        """Hash of the terms of each kept index, by the identity of their tuple."""
        self._bytes = 0
        self._empty = TermIndex(())

    def of(self, terms: tuple[Term, ...]) -> TermIndex:
        """The index of these terms. Building it takes time in proportion to them."""
        if not terms:
            return self._empty
        # Hashing and comparing many terms takes as long as building, so both are done without the
        # lock, for which the event loop waits.
        with self._lock:
            key = self._identified.get(id(terms))
            if key is not None:
                self._kept.move_to_end(key)
                return self._kept[key].index
        key = hash(terms)
        with self._lock:
            known = self._kept.get(key)
        same = known is not None and known.terms == terms
        kept = _Kept(terms, known.index if known is not None and same else TermIndex(terms))
        with self._lock:
            if kept.bytes <= self._max_bytes:
                self._remove(key)
                self._kept[key] = kept
                self._identified[id(terms)] = key
                self._bytes += kept.bytes
            while self._bytes > self._max_bytes:
                self._remove(next(iter(self._kept)))
        return kept.index

    def _remove(self, key: int) -> None:
        if (removed := self._kept.pop(key, None)) is not None:
            self._bytes -= removed.bytes
            del self._identified[id(removed.terms)]


class _Kept:
    def __init__(self, terms: tuple[Term, ...], index: TermIndex) -> None:
        self.terms = terms
        self.index = index
        self.bytes = sum(
            _BYTES_PER_TERM + _BYTES_PER_CHARACTER * (len(term.source) + len(term.target))
            for term in terms
        )


def joined(text: str, border: int) -> bool:
    """Whether the characters on both sides of a border belong to one word."""
    return INSIDE_WORD.match(text, border) is not None


def is_free(span: Span, taken: Sequence[Span]) -> bool:
    """Whether a span overlaps none of the sorted spans in ``taken``."""
    place = bisect_left(taken, span)
    before_ends = place == 0 or taken[place - 1][1] <= span[0]
    return before_ends and (place == len(taken) or span[1] <= taken[place][0])


def _inside_words(text: str) -> bytearray:
    """Whether each border of a text, its ends included, is inside a word; see ``joined``."""
    inside = bytearray(len(text) + 1)
    for found in INSIDE_WORD.finditer(text):
        inside[found.start()] = 1
    return inside


def _folded(text: str) -> str:
    """The text without distinction of case, character by character."""
    folded = text.casefold()
    if len(folded) == len(text):
        return folded
    return "".join(map(_folded_character, text))


def _folded_character(character: str) -> str:
    # "ß" and "ẞ" fold to "ss", but the latter is "ß" in lower case.
    forms = character.casefold(), character.lower(), character
    return next(form for form in forms if len(form) == 1)


def _longest_prefixes(sources: Sequence[str]) -> list[int]:
    """Number of the longest source that begins each of the sorted sources, or -1."""
    prefixes = []
    open_sources: list[int] = []
    for number, source in enumerate(sources):
        while open_sources and not source.startswith(sources[open_sources[-1]]):
            open_sources.pop()
        prefixes.append(open_sources[-1] if open_sources else -1)
        open_sources.append(number)
    return prefixes
