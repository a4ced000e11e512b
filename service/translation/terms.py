"""A glossary's terms in a sentence: which are said, and how a translation comes to say them.

A term that a translation lacks is forced where it belongs: what the translation says before the
words that look at the term is kept, the term is written, and the model goes on from there, so that
the rest of the sentence fits it. Terms are taken as they stand, in the order of the translation.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from service.translation.alignment import Alignment, Span
from service.translation.types import Term

Align = Callable[[str], Awaitable[Alignment]]
"""The alignment of the sentence with a translation of it."""
Continue = Callable[[str], Awaitable[str]]
"""The best translation that begins with a text."""


@dataclass(frozen=True, slots=True)
class Said:
    """A term and where in a sentence it is said."""

    term: Term
    span: Span


def said_in(sentence: str, terms: Sequence[Term]) -> tuple[Said, ...]:
    """The terms that a sentence says as whole words, the longest of those that overlap.

    Letters' case counts first; where nothing of the same case is said, it does not.
    """
    found: list[Said] = []
    for term in sorted(terms, key=lambda term: len(term.source), reverse=True):
        spans = _spans(term.source, sentence, 0) or _spans(term.source, sentence, re.IGNORECASE)
        for start, end in spans:
            if all(end <= said.span[0] or said.span[1] <= start for said in found):
                found.append(Said(term, (start, end)))
    return tuple(sorted(found, key=lambda said: said.span))


async def honour(
    translation: str, said: Sequence[Said], align: Align, go_on: Continue, prefix: str = ""
) -> str:
    """The translation with every term in it. ``prefix`` is what it begins with in any case."""
    # Each round settles a term at least: the one it forces and those said before it.
    outstanding = list(said)
    while missing := _missing(translation[len(prefix) :], outstanding):
        alignment = await align(translation)
        start, number = min(
            (_place(alignment, each.span, len(prefix), len(translation)), number)
            for number, each in enumerate(missing)
        )
        outstanding.remove(missing[number])
        kept = translation[len(prefix) : start]
        outstanding = _missing(kept, outstanding)
        before = prefix + kept
        blank = " " if before and not before[-1].isspace() and start == len(translation) else ""
        prefix = before + blank + missing[number].term.target
        translation = await go_on(prefix)
    return translation


def _missing(translation: str, said: Sequence[Said]) -> list[Said]:
    """Which of the terms a translation does not say as often as its sentence does."""
    left: dict[str, int] = {}
    missing = []
    for each in said:
        target = each.term.target
        left.setdefault(target, len(_spans(target, translation, 0)))
        if left[target]:
            left[target] -= 1
        else:
            missing.append(each)
    return missing


def _place(alignment: Alignment, span: Span, first: int, end: int) -> int:
    """Where the words of a translation begin that look at ``span`` of its source.

    Only words at or behind character ``first`` count; ``end`` if there are none.
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
    # A term of several words: its translation begins with the first of them that looks at it.
    looked_at = alignment.weights_TS.argmax(axis=1)
    while best - 1 in words and looked_at[best - 1] in columns:
        best -= 1
    return alignment.target_words[best][0]


def _spans(word: str, text: str, flags: int) -> list[Span]:
    if not word:
        return []
    before = r"(?<!\w)" if word[0].isalnum() else ""
    after = r"(?!\w)" if word[-1].isalnum() else ""
    pattern = f"{before}{re.escape(word)}{after}"
    return [match.span() for match in re.finditer(pattern, text, flags)]
