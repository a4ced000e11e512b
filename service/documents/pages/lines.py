"""Joins the glyphs of a page to lines, and separates columns and cells of one row."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

from service.documents.pages.bidi import is_right_to_left
from service.documents.pages.types import Box, Glyph, Line

_WIDEST_GAP = 4.0
"""Widest gap in ems of a justified line, all of whose gaps are about equal."""
_LEAST_OF_WIDEST = 0.7
"""Part of its widest gap that every gap of a justified line has."""
_BEFORE_WIDE_BLANKS = frozenset(".:!?")
_WIDER_BETWEEN_SENTENCES = 3.0
"""Greatest ratio of a gap after a sentence to the other gaps of a justified line."""
_GAP = 1.5
"""Widest gap in ems of other lines, within one operator that shows text."""
_GAP_OF_OPERATORS = 0.9
"""Widest gap in ems of other lines, between two operators."""
_GAP_OF_CELLS = 0.4
"""Narrowest gap in ems between cells that begin where those of another row do."""
_BLANK = 0.12
"""Ems of the narrowest gap between words."""
_FEWEST_SPACED, _WIDEST_SPACING = 4, 0.6
"""Fewest gaps, and widest usual one in ems, of a line whose letters are spaced."""
_ASCII_WORD = re.compile(r"[0-9A-Za-z]")
_BACK = 0.6
"""Ems by which a glyph may begin before the end of the last one."""
_GAP_OF_LABEL = 0.45
"""Ems between the number of an item and its text; fewer are a blank of a sentence."""
_GAP_OF_NUMBER = 0.8
"""Ems between the number of a heading and its text."""
_NUMBER = re.compile(r"\d{1,2}(?:\.\d{1,2})*")
_SHIFT = 0.55
"""Ems by which super- and subscripts leave the baseline."""
_SMALLER = 0.9
_BAR = re.compile(r"(?:[.․…_·]){4,}")  # noqa: RUF001


def lines_of(glyphs: Iterable[Glyph], rules: Sequence[Box]) -> list[Line]:
    """Lines in the order of the content stream; ``rules`` are in user space."""
    vertical = {turns: [rule.turned(turns) for rule in rules] for turns in range(4)}
    rows: list[list[Glyph]] = []
    base: Glyph | None = None
    for glyph in _in_reading_order(glyphs):
        if base is None or not _continues(rows[-1][-1], base, glyph, vertical[glyph.turns]):
            rows.append([])
            base = glyph
        rows[-1].append(glyph)
        base = max(base, glyph, key=lambda each: each.size)
    cells = [cell for row in rows for cell in _cells(row)]
    first: dict[tuple[int, int], float] = {}
    for cell in cells:
        first[_row(cell)] = min(cell[0].left, first.get(_row(cell), cell[0].left))
    starts = [cell[0] for cell in cells if cell[0].left > first[_row(cell)]]
    return [
        part
        for cell in cells
        for narrow in _narrow_cells(cell, starts)
        for part in _parts(_with_words(_with_scripts(narrow)))
    ]


def _in_reading_order(glyphs: Iterable[Glyph]) -> Iterator[Glyph]:
    """Glyphs of words that run to the left from the right one on; PDFium reverses some words."""
    for word in Line(tuple(glyphs)).words():
        text = "".join(glyph.text for glyph in word)
        if word[0].turns or not is_right_to_left(text) or _ASCII_WORD.search(text):
            yield from word
        else:
            first, *others = sorted(word, key=lambda glyph: glyph.left, reverse=True)
            yield first._replace(after_space=word[0].after_space)
            yield from (glyph._replace(after_space=False) for glyph in others)


def _with_words(line: tuple[Glyph, ...]) -> tuple[Glyph, ...]:
    """A line; if its letters are spaced, only gaps that are wider than others are blanks."""
    gaps = [(after.left - before.right) / after.size for before, after in pairwise(line)]
    usual = median(gaps) if len(gaps) >= _FEWEST_SPACED else 0.0
    if not _BLANK < usual < _WIDEST_SPACING or min(gaps) < usual / 2:
        return line
    return line[:1] + tuple(
        glyph._replace(after_space=gap > usual + _BLANK)
        for gap, glyph in zip(gaps, line[1:], strict=True)
    )


def _continues(last: Glyph, base: Glyph, glyph: Glyph, rules: Sequence[Box]) -> bool:
    """Whether a glyph follows the last one of a row, whose largest glyph is ``base``."""
    size = max(last.size, glyph.size)
    if glyph.turns != last.turns:
        return False
    if abs(glyph.y - base.y) > 0.1 * size and not _is_script(base, glyph):
        return False
    gap = glyph.left - last.right
    if is_right_to_left(last.text + glyph.text):
        gap = max(gap, last.left - glyph.right)
    if not -_BACK * size <= gap <= _WIDEST_GAP * size:
        return False
    return gap < 0.3 * size or not _separated(last, glyph, rules)


def _row(cell: Sequence[Glyph]) -> tuple[int, int]:
    return cell[0].turns, round(cell[0].y)


def _cells(line: Sequence[Glyph]) -> Iterator[Sequence[Glyph]]:
    """Parts of a line between wide gaps, unless the line is justified."""
    gaps = [after.left - before.right for before, after in pairwise(line)]
    if _is_justified(line, gaps):
        yield line
        return
    start = 0
    for end, (before, after) in enumerate(pairwise(line), start=1):
        widest = _GAP if before.source == after.source else _GAP_OF_OPERATORS
        if gaps[end - 1] > widest * max(before.size, after.size):
            yield line[start:end]
            start = end
    yield line[start:]


def _is_justified(line: Sequence[Glyph], gaps: Sequence[float]) -> bool:
    """Whether the blanks of a line are about equal; TeX widens those between sentences."""
    blanks = [
        (gap, glyph.text in _BEFORE_WIDE_BLANKS)
        for gap, glyph in zip(gaps, line, strict=False)
        if gap > _BLANK * glyph.size
    ]
    within = [gap for gap, ends_sentence in blanks if not ends_sentence]
    if len(blanks) < 2 or not within or not any(glyph.text.isalpha() for glyph in line):
        return False
    widest = max(within)
    return min(within) > _LEAST_OF_WIDEST * widest and all(
        _LEAST_OF_WIDEST * widest < gap <= _WIDER_BETWEEN_SENTENCES * widest for gap, _ in blanks
    )


def _narrow_cells(line: Sequence[Glyph], starts: Sequence[Glyph]) -> Iterator[Sequence[Glyph]]:
    """Parts of a line that begin where a cell of a row nearby does."""
    start = 0
    for end, (before, after) in enumerate(pairwise(line), start=1):
        wide = after.left - before.right > _GAP_OF_CELLS * after.size
        if wide and before.source != after.source and any(_is_below(after, s) for s in starts):
            yield line[start:end]
            start = end
    yield line[start:]


def _is_below(glyph: Glyph, start: Glyph) -> bool:
    """Whether two glyphs begin at one place of rows that are near each other."""
    near = abs(glyph.left - start.left) < 0.7 and abs(glyph.y - start.y) < 4 * glyph.size
    return near and glyph.turns == start.turns and glyph.y != start.y


def _is_script(base: Glyph, glyph: Glyph) -> bool:
    smaller = glyph.size < _SMALLER * base.size
    return smaller and abs(glyph.y - base.y) < _SHIFT * base.size


def _separated(last: Glyph, glyph: Glyph, rules: Sequence[Box]) -> bool:
    """Whether a vertical rule is between two glyphs of a line."""
    low, high = glyph.y, glyph.y + glyph.size / 2
    return any(
        rule.left >= last.right - 1
        and rule.right <= glyph.left + 1
        and rule.bottom <= low
        and rule.top >= high
        for rule in rules
    )


def _with_scripts(line: Sequence[Glyph]) -> tuple[Glyph, ...]:
    base = max(line, key=lambda each: each.size)
    return tuple(
        glyph._replace(style=replace(glyph.style, script="above" if glyph.y > base.y else "below"))
        if _is_script(base, glyph) and abs(glyph.y - base.y) > 0.1 * base.size
        else glyph
        for glyph in line
    )


def _parts(line: tuple[Glyph, ...]) -> Iterator[Line]:
    """A line, and as further lines its label and the rows of dots of a table of contents."""
    text = "".join(glyph.text[:1] or "\0" for glyph in line)
    cuts = {0, len(line), *(place for bar in _BAR.finditer(text) for place in bar.span())}
    label = next(Line(line).words())
    if len(label) < len(line):
        gaps = [(after.left - before.right) / after.size for before, after in pairwise(line)]
        gap = gaps.pop(len(label) - 1)
        if Line(label).is_label:
            is_apart = gap > _GAP_OF_LABEL or not label[0].text.isalnum()
        else:
            is_number = _NUMBER.fullmatch(Line(label).text) and line[len(label)].text.isupper()
            is_apart = bool(is_number) and gap > max(_GAP_OF_NUMBER, 1.5 * max(gaps, default=0.0))
        if is_apart:
            cuts.add(len(label))
    for start, end in pairwise(sorted(cuts)):
        yield Line(line[start:end])
