"""Wraps words with zero-width markup and unbreakable blanks into lines."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from service.documents.fragments.fragment import Piece


@dataclass(frozen=True, slots=True)
class Word:
    """Text between two plain blanks; empty between adjacent blanks."""

    text: str
    width: int


def words_of(pieces: Iterable[Piece], *, tags_have_width: bool) -> list[Word]:
    """The words of a fragment; joining them with blanks restores its text."""
    words: list[Word] = []
    text, width = "", 0
    for piece in pieces:
        first, *following = piece.text.split(" ") if piece.kind == "text" else [piece.text]
        text += first
        width += len(first) if piece.kind == "text" or tags_have_width else 0
        for word in following:
            words.append(Word(text, width))
            text, width = word, len(word)
    return [*words, Word(text, width)]


def wrapped(
    words: Sequence[Word], width: int, may_start: Callable[[Word], bool] = lambda word: True
) -> list[str]:
    """Fewest lines of at most ``width``; a line is longer where no break is allowed."""
    lines: list[list[str]] = []
    used = 0
    for word in words:
        if not lines or (used + 1 + word.width > width and word.text and may_start(word)):
            lines.append([])
            used = -1
        lines[-1].append(word.text)
        used += 1 + word.width
    return [" ".join(line) for line in lines]


def balanced(words: Sequence[Word], most: int) -> list[str]:
    """At most ``most`` lines of minimal width."""
    longest = sum(word.width for word in words) + len(words)
    width = bisect.bisect_left(
        range(longest), True, key=lambda width: len(wrapped(words, width)) <= most
    )
    return wrapped(words, width)
