"""Lossless sentence segmentation by line breaks, ``sentencex`` and the model's length limit.

Text around sentences (blanks, line breaks, marks of direction, lines of dashes, emoji) and
sentences copied to the translation are separators, which are kept unchanged. Lines end sentences.
Within a line ``sentencex`` finds the ends, except that the dots of an ordinal number and of an
abbreviation are none, nor is a quotation that the sentence goes on after. It gets a long line in
windows, because its time is quadratic in unbalanced quotation marks. A sentence longer than the
model can read is split at clause marks, else at blanks, else between characters of scripts without
blanks, as near to its middle as possible; it is never truncated.

Sentences are sub-strings of the text by offsets, so a segmenter that alters its input cannot alter
them. The separators of a translation have blanks as its language has them.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import sentencex

from service.engine.errors import SentenceTooLong
from service.text.abbreviations import ends_with_abbreviation
from service.text.alignment import Span
from service.text.words import BETWEEN_UNSPACED

Splitting = Literal["sentences", "ignoring_lines", "none"]
"""Sentence ends: at lines and full stops, at full stops only, or only at the end of the text."""

_CLAUSE_END = re.compile(
    r"(?<=[,;:])(?=\s)|(?<=[，、；：،؛·\u0387\u055d\u1363\u1364\u104a])|(?=\s[–—-]\s)"
)
_BLANK = re.compile(r"(?=\s)")
_ALPHANUMERIC = re.compile(r"[^\W_]")

_UNSEEN = (
    "".join(
        chr(code)
        for code in range(0x3001)
        if chr(code).isspace() or unicodedata.category(chr(code)) == "Cc"
    )
    + "\u061c\u1361\u200b\u200e\u200f"
    "\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
)
"""Blanks, Ethiopic word separators, control characters, byte order marks and marks of direction;
models lose most of them."""

_ORDINAL_DOT = frozenset(
    {
        *("bs", "cs", "da", "de", "et", "fi", "hr", "hu", "is", "lb"),
        *("lv", "nb", "nn", "no", "pl", "sk", "sl", "sr", "tr"),
    }
)
"""Languages that write ordinal numbers with a dot: *19th century*, ``19. Jahrhundert``."""
_OTHER_BLANK = re.compile(r"[^\S ]")
_ORDINAL_END = re.compile(r"(?<!\S)\(?\d{1,2}\.\s*$")
_IN_ABBREVIATION = re.compile(r"(?<=\.)(?:[-‐‑ºª]|[^\W\d_]\.)")  # noqa: RUF001 - hyphens
"""The rest of ``J.-C.``, ``n.º`` and ``a.C.`` behind their first dot."""
_NEXT = re.compile(r" *+(.?)")
"""The next visible character. ``_ends`` has replaced all other blanks."""
_DOTTED = re.compile(r"(?:\b[^\W\d_]|\.\w{1,2})\.\s*$")
"""An initial, or an abbreviation with two dots, which ends no sentence before a small letter."""
_COMPOUND_INITIALS = re.compile(
    r"\b(?:(?!J\.-C)[^\W\d_]\.[-‐‑][^\W\d_]"  # noqa: RUF001 - hyphens
    r"|(?<!\bav\. )(?<!\bapr\. )(?<!\bavant )(?<!\baprès )J\.-C)\.\s*$"
)
"""The initials of a first name such as Jean-Paul, which a surname follows, but *av. J.-C.*"""
_INITIALS = 8
"""Characters of such initials and of blanks behind them, at most."""
_GOES_ON = {
    "ja": re.compile(r"(?<=[」』”])(?:と|って|などと?|は|が|を|に|の|も|で|から|だ)"),
    "ko": re.compile(r"(?<=[\"”'\u2019」』])[가-힣]"),
}
"""Words that continue a sentence after a quotation, without a blank."""
_FURTHER_ENDS = {"bo": re.compile("[།༎]+"), "km": re.compile("[។៕]+")}
"""Full stops that ``sentencex`` lacks, or wants a blank after."""


_WINDOW = 2_000
"""Characters that sentencex gets at once, which takes it a few milliseconds at worst."""

_WITHOUT_BLANKS = frozenset(["ja", "lzh", "wuu", "yue", "zh"])
"""Languages without blanks between sentences. Thai, Lao, Khmer and Burmese have them there."""
_TAGS = re.compile(r"((?:</[^<>]*>)*)([ \t\u3000]*)((?:<[^<>]*>)*)")


@dataclass(frozen=True, slots=True)
class TokenLimit:
    """The most tokens that a model reads, and a function that counts a sentence's tokens."""

    count: Callable[[str], int]
    most: int


def _nothing(sentence: str) -> bool:
    return False


def segment(
    text: str,
    language: str,
    limit: TokenLimit,
    splitting: Splitting = "sentences",
    copied: Callable[[str], bool] = _nothing,
) -> tuple[Span, ...]:
    """The spans of the sentences of a text in ``language``, a canonical code, in order.

    The text between them is separators, and so are sentences for which ``copied`` is true. Raises
    ``SentenceTooLong`` for a word that the model cannot read whole.
    """
    code = language.partition("-")[0]
    return tuple(
        span
        for start, end in _coarse(text, code, splitting)
        for span in _fitting(text, start, end, limit, copied)
    )


def _coarse(text: str, language: str, splitting: Splitting) -> Iterator[Span]:
    """Spans of sentences, regardless of the model's length limit."""
    if splitting == "none":
        yield 0, len(text)
        return
    lines = [text] if splitting == "ignoring_lines" else text.splitlines(keepends=True)
    line_start = 0
    for line in lines:
        for start, end in _boundaries(_plain_blanks(line), language):
            yield line_start + start, line_start + end
        line_start += len(line)


def _boundaries(line: str, language: str) -> Iterator[Span]:
    start = before = 0
    for end in _ends(line, language):
        goes_on = end < len(line) and _goes_on(line, before, end, language)
        before = end
        if goes_on:
            continue
        yield start, end
        start = end


def _goes_on(line: str, start: int, end: int, language: str) -> bool:
    """Whether the sentence goes on after ``end``, where sentencex ends the one from ``start``."""
    if language in _ORDINAL_DOT and _ORDINAL_END.search(line, start, end):
        return True
    if language in _GOES_ON and _GOES_ON[language].match(line, end):
        return True
    if _IN_ABBREVIATION.match(line, end):
        return True
    # sentencex ends the sentence within the initials, too.
    if _COMPOUND_INITIALS.search(line, max(0, end - _INITIALS), end):
        return True
    # A copy of the rest of the line would take quadratic time.
    following = _NEXT.match(line, end)
    if following and following[1].islower() and _DOTTED.search(line, start, end):
        return True
    return ends_with_abbreviation(line[start:end], language)


def _ends(line: str, language: str) -> Iterator[int]:
    """The sentence ends of a line that has plain blanks only; the last is the end of the line.

    Each window begins after the last sentence end found, and only ends in its first half count,
    because sentencex has to see what follows. A window advances by a quarter of its length at
    least, so the time is linear.
    """
    half, quarter = _WINDOW // 2, _WINDOW // 4
    start = 0
    while len(line) - start > _WINDOW:
        window = line[start : start + _WINDOW]
        ends = _found(window, language)
        decided = bisect_right(ends, half)
        if not decided or ends[decided - 1] < quarter:
            decided += 1
        yield from (start + end for end in ends[:decided])
        advance = ends[decided - 1] if decided <= len(ends) else 0
        if advance < quarter:
            # A sentence longer than most of the window goes on in the next one.
            advance = max(window.rfind(" ", half, half + quarter), half)
        start += advance
    yield from (start + end for end in _found(line[start:], language))
    if line:
        yield len(line)


def _found(window: str, language: str) -> list[int]:
    """The sentence ends inside a window."""
    found = sentencex.get_sentence_boundaries(language, window)
    ends = {boundary["end_index"] for boundary in found}
    if language in _FURTHER_ENDS:
        ends.update(match.end() for match in _FURTHER_ENDS[language].finditer(window))
    return sorted(end for end in ends if end < len(window))


def _plain_blanks(line: str) -> str:
    """The line with every blank replaced by a space, and U+037E by ``;``; offsets stay the same.

    Blanks of several bytes, such as a no-break space after an initial, make sentencex 1.0 panic.
    """
    return _OTHER_BLANK.sub(" ", line).replace("\u037e", ";")


def _fitting(
    text: str, start: int, end: int, limit: TokenLimit, copied: Callable[[str], bool]
) -> Iterator[Span]:
    """The span without invisible characters around it, split to fit the model's limit."""
    span = text[start:end]
    start += len(span) - len(span.lstrip(_UNSEEN))
    end -= len(span) - len(span.rstrip(_UNSEEN))
    span = text[start:end]
    if not _ALPHANUMERIC.search(span) or copied(span):
        return
    length = limit.count(span)
    if length <= limit.most:
        yield start, end
        return
    cuts = (_nearest_to_middle(mark, span) for mark in (_CLAUSE_END, _BLANK, BETWEEN_UNSPACED))
    cut = next((cut for cut in cuts if cut is not None), None)
    if cut is None:
        raise SentenceTooLong(length, limit.most, span)
    yield from _fitting(text, start, start + cut, limit, copied)
    yield from _fitting(text, start + cut, end, limit, copied)


def _nearest_to_middle(mark: re.Pattern[str], span: str) -> int | None:
    cuts = (match.start() for match in mark.finditer(span) if 0 < match.start() < len(span))
    return min(cuts, key=lambda cut: abs(cut - len(span) // 2), default=None)


def has_blanks_between_sentences(language: str) -> bool:
    """Whether a language, a canonical code, puts a blank between two sentences of a line."""
    return language.partition("-")[0] not in _WITHOUT_BLANKS


def rejoined(separators: Iterable[str], source: str, target: str) -> list[str]:
    """Separators of the sentences of a line for another language; the outer ones are unchanged.

    A blank is added between sentences, after end tags and before start tags, if only ``target`` has
    blanks there, and removed if only ``source`` has. Separators with line breaks or characters that
    readers see are unchanged.
    """
    found = list(separators)
    spaced = has_blanks_between_sentences(target)
    if has_blanks_between_sentences(source) != spaced:
        blank = " " if spaced else ""
        for number, separator in enumerate(found[1:-1], start=1):
            if tags := _TAGS.fullmatch(separator):
                found[number] = f"{tags[1]}{blank}{tags[3]}"
    return found
