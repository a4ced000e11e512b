"""Lines of words. A word may hold markup that has no width, and blanks nobody may break at."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from service.documents.fragment import Piece


@dataclass(frozen=True, slots=True)
class Word:
    """What stands between two plain blanks; nothing, if the blanks stand side by side."""

    text: str
    width: int


def words_of(pieces: Iterable[Piece], *, tags_have_width: bool) -> list[Word]:
    """The words of a fragment; joined by blanks they are its text again."""
    words: list[Word] = []
    text, width = "", 0
    for piece in pieces:
        first, *others = piece.text.split(" ") if piece.kind == "text" else [piece.text]
        text += first
        width += len(first) if piece.kind == "text" or tags_have_width else 0
        for other in others:
            words.append(Word(text, width))
            text, width = other, len(other)
    return [*words, Word(text, width)]


def wrapped(
    words: Sequence[Word], width: int, may_start: Callable[[Word], bool] = lambda word: True
) -> list[str]:
    """Lines of at most ``width``, as few as there can be; longer where no break is allowed."""
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
    """At most ``most`` lines, the longest of them as short as can be."""
    longest = sum(word.width for word in words) + len(words)
    width = bisect.bisect_left(
        range(longest), True, key=lambda width: len(wrapped(words, width)) <= most
    )
    return wrapped(words, width)
