"""Forces glossary terms that a translation lacks, by prefix-constrained decoding.

For a missing term, the translation before the words that attend to it is kept, the term is
appended, and the model continues from this prefix, so that the sentence agrees with the term.
Terms are not inflected. They are forced in the order of the translation, up to ``MOST_FORCED``
times in a sentence, because each time is a decoding. Terms that cannot be forced are inserted by
``service.translation.glossary.term_insertion``.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Awaitable, Callable, Sequence

from service.translation.alignment import Alignment, Span
from service.translation.glossary.term_index import LETTERS, TermOccurrence, is_free, joined

Align = Callable[[str], Awaitable[Alignment]]
"""Returns the alignment of the sentence with a translation."""
Continue = Callable[[str], Awaitable[str | None]]
"""Returns the best translation that begins with a text; ``None`` if the length limit is reached."""

MOST_FORCED = 8


async def force_terms(
    translation: str,
    occurrences: Sequence[TermOccurrence],
    align: Align,
    go_on: Continue,
    prefix: str = "",
) -> str:
    """The translation with the terms in it, as far as the length limit allows.

    ``prefix`` is the beginning that the request forces.
    """
    # Each round completes at least one term: the forced one and those that occur before it.
    outstanding = list(occurrences)
    forced = 0
    while forced < MOST_FORCED:
        missing = _missing(translation[len(prefix) :], outstanding)
        if not missing:
            break
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
        forced += 1
        longer = await go_on(prefix)
        if longer is None:
            break
        translation = longer
    return translation


def surplus(prefix: str, following: str) -> str:
    """The letters by which the model continues the last word of the forced prefix."""
    found = LETTERS.match(following) if LETTERS.search(prefix[-1:]) else None
    return found[0] if found else ""


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


def _missing(translation: str, occurrences: Sequence[TermOccurrence]) -> list[TermOccurrence]:
    """The term occurrences that the translation lacks."""
    places = found_in(translation, occurrences)
    return [each for each, place in zip(occurrences, places, strict=True) if place is None]


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
