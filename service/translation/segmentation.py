"""Text to sentences and back. Joining what was split gives the text, always.

A sentence is what the model translates; everything around sentences (blanks, line breaks,
marks of direction, lines of dashes, emoji) is a separator and is kept as it is. So is a sentence
that is copied to the translation. Lines end
sentences; within a line ``sentencex`` decides, except that the dot of an ordinal number ends
nothing. A sentence that the model cannot read whole is split further, at clause marks, then at
blanks, as near to its middle as possible; it is never cut.

Sentences are sub-strings of the text, found by their offsets, so nothing a segmenter may do
to its input can change ours.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Literal

import sentencex

from service.engine.errors import SentenceTooLong

Splitting = Literal["sentences", "ignoring_lines", "none"]
"""Where sentences end: at lines and full stops, at full stops only, or only at the end."""

_CLAUSE_END = re.compile(r"(?<=[,;:])(?=\s)|(?<=[，、；：،؛])|(?=\s[–—-]\s)")
_BLANK = re.compile(r"(?=\s)")

_UNSEEN = (
    "".join(
        chr(code)
        for code in range(0x3001)
        if chr(code).isspace() or unicodedata.category(chr(code)) == "Cc"
    )
    + "\u061c\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
)
"""Blanks, control characters, byte order marks and marks of direction. Models know few of them and
would lose them."""

_ORDINAL_DOT = frozenset(
    {
        *("bs", "cs", "da", "de", "et", "fi", "hr", "hu", "is", "lb"),
        *("lv", "nb", "nn", "no", "pl", "sk", "sl", "sr", "tr"),
    }
)
"""Languages that write *19th century* as ``19. Jahrhundert``."""
_ORDINAL_END = re.compile(r"(?<!\S)\(?\d{1,2}\.\s*$")


@dataclass(frozen=True, slots=True)
class TokenLimit:
    """How many tokens a model reads, and how to count those of a sentence."""

    count: Callable[[str], int]
    most: int


@dataclass(frozen=True, slots=True)
class SegmentedText:
    """A text and where its sentences are, in order; the rest of it is separators."""

    text: str
    spans: tuple[tuple[int, int], ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        return tuple(self.text[start:end] for start, end in self.spans)

    @property
    def separators(self) -> tuple[str, ...]:
        """One more than there are sentences."""
        starts = [*(start for start, _ in self.spans), len(self.text)]
        ends = [0, *(end for _, end in self.spans)]
        return tuple(self.text[end:start] for end, start in zip(ends, starts, strict=True))

    def join(self, sentences: Sequence[str]) -> str:
        """The text with ``sentences``, one for each, in the places of its own."""
        if len(sentences) != len(self.spans):
            raise ValueError(f"{len(sentences)} sentences for {len(self.spans)} places")
        pairs = zip_longest(self.separators, sentences, fillvalue="")
        return "".join(chain.from_iterable(pairs))


def _nothing(sentence: str) -> bool:
    return False


def segment(
    text: str,
    language: str,
    limit: TokenLimit,
    splitting: Splitting = "sentences",
    copied: Callable[[str], bool] = _nothing,
) -> SegmentedText:
    """Find the sentences of a text in ``language``, a canonical code.

    Sentences for which ``copied`` is true become parts of separators. Raises ``SentenceTooLong``
    for a word that the model cannot read whole.
    """
    code = language.partition("-")[0]
    spans = [
        span
        for start, end in _coarse(text, code, splitting)
        for span in _fitting(text, start, end, limit, copied)
    ]
    return SegmentedText(text, tuple(spans))


def _coarse(text: str, language: str, splitting: Splitting) -> Iterator[tuple[int, int]]:
    """Where sentences are before anybody asks how long they are."""
    if splitting == "none":
        yield 0, len(text)
        return
    lines = [text] if splitting == "ignoring_lines" else text.splitlines(keepends=True)
    line_start = 0
    for line in lines:
        for start, end in _boundaries(_plain_blanks(line), language):
            yield line_start + start, line_start + end
        line_start += len(line)


def _boundaries(line: str, language: str) -> Iterator[tuple[int, int]]:
    start = 0
    for found in sentencex.get_sentence_boundaries(language, line):
        end: int = found["end_index"]
        if language in _ORDINAL_DOT and end < len(line) and _ORDINAL_END.search(line[start:end]):
            continue
        yield start, end
        start = end


def _plain_blanks(line: str) -> str:
    """The line with every kind of blank as a plain one, and every character in its place.

    Blanks of several bytes, such as a no-break space after an initial, make sentencex 1.0 panic.
    """
    return "".join(" " if character.isspace() else character for character in line)


def _fitting(
    text: str, start: int, end: int, limit: TokenLimit, copied: Callable[[str], bool]
) -> Iterator[tuple[int, int]]:
    """The span without what is unseen around it, in as many parts as the model needs."""
    span = text[start:end]
    start += len(span) - len(span.lstrip(_UNSEEN))
    end -= len(span) - len(span.rstrip(_UNSEEN))
    span = text[start:end]
    if not any(character.isalnum() for character in span) or copied(span):
        return
    length = limit.count(span)
    if length <= limit.most:
        yield start, end
        return
    cut = _nearest_to_middle(_CLAUSE_END, span) or _nearest_to_middle(_BLANK, span)
    if cut is None:
        raise SentenceTooLong(length, limit.most)
    yield from _fitting(text, start, start + cut, limit, copied)
    yield from _fitting(text, start + cut, end, limit, copied)


def _nearest_to_middle(mark: re.Pattern[str], span: str) -> int | None:
    cuts = (match.start() for match in mark.finditer(span) if 0 < match.start() < len(span))
    return min(cuts, key=lambda cut: abs(cut - len(span) // 2), default=None)
