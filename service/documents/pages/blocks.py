"""Joins the lines of a page to blocks: paragraphs, headings, items of lists, cells of tables."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import median
from typing import Literal

from service.documents.fragments.fragment import Fragment, Piece
from service.documents.pages.types import Box, Line, Style

_LEADING = (0.75, 2.0)
"""Least and greatest distance of baselines of a block, in ems."""
_LEADING_OF_CELLS = 1.45
"""Greatest distance of baselines, in ems, of lines beside others that do not seem to wrap."""
_FEW_LINES = 3
"""Lines of a chain that may all be short; the longest of more lines shows the width."""
_FEWEST_ADDRESS_LINES, _MOST_ADDRESS_WORDS = 3, 4
_NEAR_BLOCKS = 4.0
"""Ems between baselines of blocks that are next to each other."""
_WIDEST_INDENT = 3.0
"""Ems of the first line of a paragraph."""
_HYPHENATED = re.compile(r"[^\W\d_][-\u2010\u00ad]$")
_SENTENCE_END = re.compile(r"[.!?…:;。！？]['\"’”»)\]]*$")  # noqa: RUF001
_AND = frozenset({"und", "oder", "bzw.", "and", "or", "et", "ou", "y", "o", "e", "en", "of"})
"""Words before which a hyphen belongs to its word: *Vor- und Nachteile*."""

Alignment = Literal["left", "centre", "right"]


@dataclass(frozen=True)
class Block:
    """Lines that are one text."""

    lines: tuple[Line, ...]

    @cached_property
    def left(self) -> float:
        return min(line.left for line in self.lines)

    @cached_property
    def right(self) -> float:
        return max(line.right for line in self.lines)

    @cached_property
    def size(self) -> float:
        return median(line.size for line in self.lines)

    @cached_property
    def leading(self) -> float:
        """Distance of baselines; a usual one for a single line."""
        drops = [above.y - below.y for above, below in pairwise(self.lines)]
        return median(drops) if drops else 1.2 * self.size

    @cached_property
    def is_justified(self) -> bool:
        """Whether all lines but the last one end at the right edge, and begin at the left one."""
        filled, near = self.lines[:-1], 0.15 * self.size
        return len(filled) > 1 and all(
            self.right - line.right < near
            and (line is filled[0] or line.left - min(self.left, filled[1].left) < near)
            for line in filled
        )

    @cached_property
    def widest(self) -> float:
        """Right edge that leaves no line room for the first word of the next line."""
        return min((_with_next_word(*pair) for pair in pairwise(self.lines)), default=math.inf)

    @property
    def turns(self) -> int:
        return self.lines[0].turns

    @cached_property
    def box(self) -> Box:
        first, last = self.lines[0].box, self.lines[-1].box
        return Box(self.left, last.bottom, self.right, first.top)

    @cached_property
    def style(self) -> Style:
        """Style of most glyphs."""
        counts = Counter(glyph.style for line in self.lines for glyph in line.glyphs)
        return counts.most_common(1)[0][0]

    @cached_property
    def styles(self) -> tuple[Style, ...]:
        """Every style, in order; ``name`` of a tag of ``pieces`` is an index."""
        return tuple(dict.fromkeys(glyph.style for line in self.lines for glyph in line.glyphs))

    @cached_property
    def fragment(self) -> Fragment:
        return Fragment(self.pieces())

    def pieces(self) -> Iterator[Piece]:
        """Text without line breaks; tags enclose what has another style than most glyphs."""
        text, style = "", self.style
        for word, joined in self._words():
            for number, (character, its) in enumerate(word):
                blank = "" if number or joined else " "
                if its != style:
                    yield Piece("text", text)
                    if style != self.style:
                        yield Piece("close", "", str(self.styles.index(style)))
                    yield Piece("text", blank)
                    if its != self.style:
                        yield Piece(
                            "open", str(self.styles.index(its)), str(self.styles.index(its))
                        )
                    text, style, blank = "", its, ""
                text += blank + character
        yield Piece("text", text)
        if style != self.style:
            yield Piece("close", "", str(self.styles.index(style)))

    def _words(self) -> Iterator[tuple[list[tuple[str, Style]], bool]]:
        """Words as styled characters, and whether each continues the one before it."""
        joined = True
        words = [(n, word) for n, line in enumerate(self.lines) for word in line.words()]
        for place, (number, word) in enumerate(words):
            characters = [(glyph.text, glyph.style) for glyph in word]
            follows = words[place + 1] if place + 1 < len(words) else None
            joins = False
            if follows is not None and follows[0] != number:
                next_word = "".join(glyph.text for glyph in follows[1])
                joins = _HYPHENATED.search("".join(glyph.text for glyph in word)) is not None
                joins = joins and next_word not in _AND
                if joins and next_word[0].islower():
                    characters.pop()
            yield characters, joined
            joined = joins


@dataclass(frozen=True, slots=True)
class Flow:
    """One text: a block, or blocks of successive columns between which a sentence continues."""

    numbers: tuple[int, ...]
    """Places of its blocks among those of the page."""
    whole: Block
    """All their lines."""


def flows_of(blocks: Sequence[Block]) -> Iterator[Flow]:
    """Texts of a page; each block belongs to one."""
    numbers: list[int] = []
    for number, block in enumerate(blocks):
        if numbers and not _continues_in(blocks[numbers[-1]], block):
            yield _flow(numbers, blocks)
            numbers = []
        numbers.append(number)
    if numbers:
        yield _flow(numbers, blocks)


def _flow(numbers: Sequence[int], blocks: Sequence[Block]) -> Flow:
    whole = Block(tuple(line for number in numbers for line in blocks[number].lines))
    return Flow(tuple(numbers), whole)


def _continues_in(block: Block, after: Block) -> bool:
    """Whether the text of a block goes on in the next one, at the top of another column."""
    last, first = block.lines[-1], after.lines[0]
    if len(block.lines) < 2 or block.turns != after.turns or block.style != after.style:
        return False
    beside = after.left >= block.right and abs(after.size - block.size) < 0.1 * block.size
    full = block.right - last.right < 0.25 * (block.right - block.left)
    if not beside or not full or _SENTENCE_END.search(last.text) or first.has_label:
        return False
    starts_small = first.text[0].islower() and first.y > last.y + block.size
    return starts_small or first.y > block.lines[0].y + block.leading


def blocks_of(lines: Sequence[Line], rules: Sequence[Box]) -> Iterator[Block]:
    """Blocks in the order of the content stream."""
    rows = _rows(lines)
    chain: list[Line] = []
    for line in lines:
        if chain and not _may_follow(chain, line, rules, rows):
            yield from _split(chain, _limit(chain, lines, rules))
            chain = []
        chain.append(line)
    if chain:
        yield from _split(chain, _limit(chain, lines, rules))


def alignment_of(block: Block, others: Sequence[Block], page: Box) -> Alignment:
    """How the lines of a block are aligned, or a single line with the other blocks."""
    near = 0.3 * block.size
    if len(block.lines) > 1:
        lefts, centres, rights = _edges(block.lines)
        # The first line of a paragraph may have an indent.
        if _spread(lefts) < near or (_spread(lefts[1:]) < near and len(block.lines) > 2):
            return "left"
        if _spread(centres) < near:
            return "centre"
        wide = _spread(lefts) > _WIDEST_INDENT * block.size
        return "right" if _spread(rights) < near and (wide or len(block.lines) > 2) else "left"
    centre = (block.left + block.right) / 2
    votes: Counter[str] = Counter()
    beginnings = Counter(round(other.left) for other in others if other.turns == block.turns)
    for other in others:
        if other is not block and other.turns == block.turns:
            places = {"left": other.left - block.left, "right": other.right - block.right}
            # The middle of a text that others begin with may be at the same place by chance.
            if beginnings[round(other.left)] < 2 or _is_near(block, other):
                places["centre"] = (other.left + other.right) / 2 - centre
            votes.update(side for side, distance in places.items() if abs(distance) < near)
    if abs((page.left + page.right) / 2 - centre) < 2 * near:
        votes["centre"] += 1
    if not votes and block.left > (page.left + page.right) / 2:
        return "right"
    if not votes["left"] and (votes["centre"] or votes["right"]):
        return "centre" if votes["centre"] >= votes["right"] else "right"
    # One other block may begin at the same place by chance.
    margin = max((other.right for other in others if other.turns == block.turns), default=0.0)
    at_margin = votes["right"] and margin - block.right < near
    is_right = at_margin and votes["left"] < 2 and block.left > (page.left + page.right) / 2
    return "right" if is_right else "left"


def _is_near(block: Block, other: Block) -> bool:
    """Whether a block is just above or below another one."""
    gap = max(block.lines[-1].y - other.lines[0].y, other.lines[-1].y - block.lines[0].y)
    return gap < _NEAR_BLOCKS * block.size


def _rows(lines: Sequence[Line]) -> Counter[tuple[int, int]]:
    """Number of lines on each baseline."""
    return Counter(_row(line) for line in lines)


def _row(line: Line) -> tuple[int, int]:
    return line.turns, round(line.y)


def _may_follow(
    chain: Sequence[Line], line: Line, rules: Sequence[Box], rows: Counter[tuple[int, int]]
) -> bool:
    """Whether a line can be the next one of a block, as far as the lines before it tell."""
    last = chain[-1]
    drop, size = last.y - line.y, max(last.size, line.size)
    if line.turns != last.turns or min(last.size, line.size) < 0.87 * size:
        return False
    if not _LEADING[0] * size <= drop <= _LEADING[1] * size:
        return False
    if len(chain) > 1 and abs(chain[-2].y - last.y - drop) > 0.25 * size:
        return False
    if line.left >= last.right or line.right <= last.left or line.is_label:
        return False
    if line.has_label and (chain[0].has_label or line.left < last.left - size):
        return False
    if {glyph.style for glyph in last.glyphs}.isdisjoint(glyph.style for glyph in line.glyphs):
        return False
    if rows[_row(last)] > 1 and rows[_row(line)] > 1:
        if max(map(_count_words, (last, line))) < 3:
            return False
        wraps = line.text[0].islower() or _is_full(last, line, rules)
        if drop > _LEADING_OF_CELLS * size and not wraps:
            return False
    return not any(
        line.y < rule.bottom <= rule.top < last.y + size / 4
        and rule.left < line.right
        and rule.right > line.left
        for rule in (each.turned(line.turns) for each in rules)
        if rule.right - rule.left > rule.top - rule.bottom
    )


def _is_full(last: Line, line: Line, rules: Sequence[Box]) -> bool:
    """Whether a vertical rule leaves a line no room for the first word of the next one."""
    edge = min(
        (
            rule.left
            for rule in (each.turned(last.turns) for each in rules)
            if rule.left >= last.right and rule.bottom <= line.y and rule.top >= last.y
        ),
        default=math.inf,
    )
    return _with_next_word(last, line) > edge


def _count_words(line: Line) -> int:
    return len(line.text.split())


def _limit(chain: Sequence[Line], lines: Sequence[Line], rules: Sequence[Box]) -> float:
    """Right edge up to which the lines of a chain could have been filled."""
    right = max(line.right for line in chain)
    full, near = chain[: max(2, len(chain) - 1)], 0.1 * chain[0].size
    # Lines of a justified text end at one edge; cells of one column seldom have three words.
    justified = _spread(_edges(full)[2]) < near and min(map(_count_words, full)) > 2
    if not 1 < len(chain) <= _FEW_LINES or justified:
        return right
    top, bottom = chain[0].box.top, chain[-1].box.bottom
    column = max(
        line.right
        for line in lines
        if line.turns == chain[0].turns and abs(line.left - chain[0].left) < 0.3 * line.size
    )
    beside = [
        box.left
        for box in (
            *(rule.turned(chain[0].turns) for rule in rules),
            *(line.box for line in lines if line.turns == chain[0].turns),
        )
        if box.left >= right and box.bottom < top and box.top > bottom
    ]
    return max(right, min([column, *beside]))


def _split(chain: Sequence[Line], limit: float) -> Iterator[Block]:
    """Blocks of lines that follow one another: paragraphs end with short lines or have indents."""
    if _is_address(chain):
        yield from (Block((line,)) for line in chain)
        return
    lefts, centres, rights = _edges(chain)
    near = 0.3 * chain[0].size
    ragged = _spread(lefts) >= near
    if ragged and (_spread(centres) < near or _spread(rights) < near):
        yield Block(tuple(chain))
        return
    block: list[Line] = []
    for line in chain:
        if block and (_ends(block[-1], line, limit) or _is_indented(block, line)):
            yield Block(tuple(block))
            block = []
        block.append(line)
    yield Block(tuple(block))


def _is_address(lines: Sequence[Line]) -> bool:
    """Whether lines are those of an address: short, and each begins with a capital or a figure."""
    return len(lines) >= _FEWEST_ADDRESS_LINES and all(
        (line.text[0].isupper() or line.text[0].isdigit())
        and _count_words(line) <= _MOST_ADDRESS_WORDS
        and line.text[-1] not in ",-\u2010\u00ad"
        for line in lines
    )


def _edges(lines: Sequence[Line]) -> tuple[list[float], list[float], list[float]]:
    lefts, rights = [line.left for line in lines], [line.right for line in lines]
    return lefts, [(a + b) / 2 for a, b in zip(lefts, rights, strict=True)], rights


def _spread(values: Sequence[float]) -> float:
    return max(values, default=0.0) - min(values, default=0.0)


def _ends(last: Line, line: Line, right: float) -> bool:
    """Whether the first word of a line would have had room in the line before it."""
    return _with_next_word(last, line) < right


def _with_next_word(last: Line, line: Line) -> float:
    """Right end of a line with the first word of the next line."""
    word = next(line.words())
    width = max(glyph.right for glyph in word) - min(glyph.left for glyph in word)
    return last.right + 0.5 * line.size + width


def _is_indented(block: Sequence[Line], line: Line) -> bool:
    return any(line.left > each.left + 0.8 * line.size for each in block[1:] or block)
