"""Finds glossary terms in a sentence and forces missing ones by prefix-constrained decoding.

For a missing term, the translation before the words that attend to it is kept, the term is
appended, and the model continues from this prefix, so that the sentence agrees with the term.
Terms are not inflected. They are forced in the order of the translation. Terms that cannot be
forced are inserted by ``service.translation.glossary.term_insertion``.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from service.translation.alignment import Alignment, Span
from service.translation.types import Term
from service.translation.words import LETTER

Align = Callable[[str], Awaitable[Alignment]]
"""Returns the alignment of the sentence with a translation."""
Continue = Callable[[str], Awaitable[str | None]]
"""Returns the best translation that begins with a text; ``None`` if the length limit is reached."""

_LETTERS = re.compile(rf"{LETTER}+")


@dataclass(frozen=True, slots=True)
class TermOccurrence:
    """A term and its span in a sentence."""

    term: Term
    span: Span


def occurrences_in(sentence: str, terms: Sequence[Term]) -> tuple[TermOccurrence, ...]:
    """The terms that occur in a sentence as whole words, the longest of those that overlap.

    Case is ignored only if a term does not occur in its own case.
    """
    found: list[TermOccurrence] = []
    lowered = sentence.lower()
    near = [term for term in terms if term.source.lower() in lowered]
    for term in sorted(near, key=lambda term: len(term.source), reverse=True):
        spans = _spans(term.source, sentence) or _spans(term.source, sentence, re.IGNORECASE)
        for start, end in spans:
            if all(end <= said.span[0] or said.span[1] <= start for said in found):
                found.append(TermOccurrence(term, (start, end)))
    return tuple(sorted(found, key=lambda said: said.span))


async def force_terms(
    translation: str,
    said: Sequence[TermOccurrence],
    align: Align,
    go_on: Continue,
    prefix: str = "",
) -> str:
    """The translation with the terms in it, as far as the length limit allows.

    ``prefix`` is the beginning that the request forces.
    """
    # Each round completes at least one term: the forced one and those that occur before it.
    outstanding = list(said)
    forced = False
    while missing := _missing(translation[len(prefix) :], outstanding):
        alignment = await align(translation)
        start, number = min(
            (_place(alignment, each.span, len(prefix), len(translation)), number)
            for number, each in enumerate(missing)
        )
        outstanding.remove(missing[number])
        kept = translation[len(prefix) : start]
        if forced:
            kept = kept[len(surplus(prefix, kept)) :]
        outstanding = _missing(kept, outstanding)
        before = prefix + kept
        blank = " " if before and not before[-1].isspace() and start == len(translation) else ""
        prefix = before + blank + missing[number].term.target
        forced = True
        longer = await go_on(prefix)
        if longer is None:
            break
        translation = longer
    return translation


def surplus(prefix: str, following: str) -> str:
    """The letters by which the model continues the last word of the forced prefix."""
    found = _LETTERS.match(following) if _LETTERS.search(prefix[-1:]) else None
    return found[0] if found else ""


def found_in(translation: str, said: Sequence[TermOccurrence]) -> list[Span | None]:
    """The span of each term in a translation, without overlaps; ``None`` if it does not occur."""
    places: list[Span | None] = [None] * len(said)
    taken: list[Span] = []
    for number, each in sorted(enumerate(said), key=lambda entry: -len(entry[1].term.target)):
        for start, end in _spans(each.term.target, translation):
            if all(end <= first or last <= start for first, last in taken):
                places[number] = start, end
                taken.append((start, end))
                break
    return places


def _missing(translation: str, said: Sequence[TermOccurrence]) -> list[TermOccurrence]:
    """The term occurrences that the translation lacks."""
    places = found_in(translation, said)
    return [each for each, place in zip(said, places, strict=True) if place is None]


def _place(alignment: Alignment, span: Span, first: int, end: int) -> int:
    """The start of the target words that attend to source ``span``.

    Only words at or after character ``first`` count; ``end`` if there are none.
    """
    columns = [
        number
        for number, (start, stop) in enumerate(alignment.source_words)
        if start < span[1] and span[0] < stop
    ]
    words = [n for n, (start, _) in enumerate(alignment.target_words) if start >= first]
    if not columns or not words:
        return end
    looks = alignment.weights_TS[:, columns].sum(axis=1)
    best = max(words, key=lambda word: float(looks[word]))
    # The translation of a term of several words begins with the first that attends to it.
    looked_at = alignment.weights_TS.argmax(axis=1)
    while best - 1 in words and looked_at[best - 1] in columns:
        best -= 1
    return alignment.target_words[best][0]


def _spans(word: str, text: str, flags: int = 0) -> list[Span]:
    """Spans of ``word``, one or several words, as whole words in ``text``."""
    # Literal patterns compile fast, and there may be one for every glossary entry.
    pattern = re.compile(re.escape(word), flags)
    spans = []
    position = 0
    while word and (found := pattern.search(text, position)):
        start, end = found.span()
        position = start + 1
        if not (_joined(text, start) or _joined(text, end)):
            spans.append((start, end))
            position = end
    return spans


def _joined(text: str, border: int) -> bool:
    """Whether the characters on both sides of a border belong to one word."""
    sides = text[border - 1 : border + 1] if border else ""
    return len(sides) == 2 and _LETTERS.fullmatch(sides) is not None
