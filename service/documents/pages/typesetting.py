"""Sets the translation of a block into its box: wraps, shrinks if needed, and draws lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

from service.documents.fragments.fragment import Piece
from service.documents.pages.bidi import is_right_to_left, visual_runs
from service.documents.pages.blocks import Alignment, Block
from service.documents.pages.typefaces import ShapedGlyph, Typeface, Typefaces
from service.documents.pages.types import Box, Style, turned

_STEP = 0.97
"""Factor between two sizes that are tried."""
_BREAKS_WORDS = 0.5
"""Part of the size below which words are broken anywhere."""
_SCRIPT = 0.65
_RISE = {"": 0.0, "above": 0.33, "below": -0.15}
_WIDEST_BLANK = 0.6
"""Ems that a blank of a justified line may have in addition."""

Letter = tuple[str, Style]
Word = tuple[Letter, ...]


@dataclass(frozen=True, slots=True)
class Room:
    """Place that the lines of a block may take."""

    left: float
    right: float
    below: float
    """Free height under the last line."""
    alignment: Alignment


@dataclass(frozen=True)
class SetBlock:
    """Operators that draw a translation, and the box that it takes."""

    content: bytes
    box: Box
    scale: float


def letters_of(block: Block, pieces: Iterable[Piece]) -> list[Letter]:
    """The characters of a translation with the style that tags give them."""
    letters: list[Letter] = []
    opened = [block.style]
    for piece in pieces:
        if piece.kind == "open":
            opened.append(block.styles[int(piece.text)])
        elif piece.kind == "close":
            opened.pop()
        else:
            letters += [(each, opened[-1]) for each in piece.text]
    return letters


def shares_of(letters: Sequence[Letter], blocks: Sequence[Block]) -> Iterator[list[Letter]]:
    """A translation in parts as long as the texts of its blocks, divided between words."""
    sizes = [sum(len(line.glyphs) for line in block.lines) for block in blocks]
    start = 0
    for number in range(len(blocks)):
        end = len(letters) * sum(sizes[: number + 1]) // sum(sizes)
        while end < len(letters) and not letters[end][0].isspace():
            end += 1
        yield list(letters[start:end])
        start = max(start, end)


@dataclass(frozen=True)
class Setter:
    """Sets one block."""

    typefaces: Typefaces
    block: Block
    room: Room
    letters: Sequence[Letter]
    _advances: dict[Word, float] = field(default_factory=dict)
    """Widths in ems, for words and parts of words."""

    @cached_property
    def _words(self) -> list[Word]:
        groups = groupby(self.letters, key=lambda letter: letter[0].isspace())
        return [tuple(group) for blank, group in groups if not blank]

    @cached_property
    def _base(self) -> int:
        return int(is_right_to_left("".join(letter[0] for letter in self.letters)))

    @cached_property
    def _fills_lines(self) -> bool:
        return self.block.is_justified and self.room.alignment == "left"

    @cached_property
    def _alignment(self) -> Alignment:
        """Alignment of the block, mirrored if the translation runs to the other side."""
        text = "".join(line.text for line in self.block.lines)
        if self._base == is_right_to_left(text):
            return self.room.alignment
        mirrored: dict[Alignment, Alignment] = {"left": "right", "right": "left"}
        return mirrored.get(self.room.alignment, self.room.alignment)

    @cached_property
    def _indent(self) -> float:
        """Indent of the first line."""
        following = self.block.lines[1:]
        if self._base or self._alignment != "left" or not following:
            return 0.0
        return self.block.lines[0].left - min(line.left for line in following)

    def set(self) -> SetBlock:
        """The translation at the largest size, up to that of the block, at which it fits."""
        scale = 1.0
        while (lines := self._wrapped(scale)) is None:
            scale *= _STEP
        size, leading = scale * self.block.size, self._leading(scale)
        first = self.block.lines[0]
        y = first.y
        if len(lines) > len(self.block.lines):
            # More lines of smaller letters keep the top of the block.
            y += 0.75 * (self.block.size - size)
        drawn: list[bytes] = []
        edges = [self.block.left, self.block.left]
        for number, words in enumerate(lines):
            content, left, right = self._drawn(words, number, len(lines), size, y)
            drawn.append(content)
            edges += [left, right]
            y -= leading
        top = first.y + 0.75 * self.block.size
        return SetBlock(
            b"\n".join(drawn), Box(min(edges), y + leading - 0.22 * size, max(edges), top), scale
        )

    def _leading(self, scale: float) -> float:
        return self.block.leading * scale

    def _width(self, number: int) -> float:
        indent = self._indent if number == 0 else min(0.0, self._indent)
        return max(self.room.right - self.room.left - abs(indent), self.block.size)

    def _wrapped(self, scale: float) -> list[list[Word]] | None:
        """Lines of a size, or ``None`` if they are too many or too long."""
        size = scale * self.block.size
        height = self.block.lines[0].y - self.block.lines[-1].y + self.room.below
        most = 1 + int((height + 0.97 * (self.block.size - size) + 0.01) / self._leading(scale))
        blank = self._advance(((" ", self.block.style),), size)
        words = list(self._words)
        lines: list[list[Word]] = []
        used = 0.0
        while words:
            word = words.pop(0)
            width = self._advance(word, size)
            if lines and used + blank + width <= self._width(len(lines) - 1):
                lines[-1].append(word)
                used += blank + width
                continue
            if len(lines) == most:
                return None
            if width > self._width(len(lines)):
                if scale > _BREAKS_WORDS:
                    return None
                fits = self._fitting(word, size, self._width(len(lines)))
                words.insert(0, word[fits:])
                word = word[:fits]
                width = self._advance(word, size)
            lines.append([word])
            used = width
        return lines

    def _fitting(self, word: Word, size: float, width: float) -> int:
        """Number of letters of a word that fit into a line, one at least."""
        fits = 1
        while fits < len(word) - 1 and self._advance(word[: fits + 1], size) <= width:
            fits += 1
        return fits

    def _advance(self, letters: Word, size: float) -> float:
        if letters not in self._advances:
            self._advances[letters] = sum(
                glyph.advance * (_SCRIPT if style.script else 1.0)
                for style, _, glyphs in self._shaped(letters)
                for glyph in glyphs
            )
        return self._advances[letters] * size

    def _shaped(
        self, letters: Sequence[Letter]
    ) -> Iterator[tuple[Style, Typeface, tuple[ShapedGlyph, ...]]]:
        """Glyphs from left to right, in runs of one style and font."""
        text = "".join(letter[0] for letter in letters)
        for places, to_left in visual_runs(text, self._base):
            fonts = [self.typefaces.of(letters[place][1], text[place]) for place in places]
            runs = [
                list(run)
                for _, run in groupby(
                    zip(places, fonts, strict=True),
                    key=lambda each: (letters[each[0]][1], id(each[1])),
                )
            ]
            for run in reversed(runs) if to_left else runs:
                (first, font), (last, _) = run[0], run[-1]
                shown = text[first : last + 1]
                yield letters[first][1], font, font.shaped(shown, to_left)

    def _drawn(
        self, words: Sequence[Word], number: int, count: int, size: float, y: float
    ) -> tuple[bytes, float, float]:
        """Operators of a line, and its edges."""
        blank: Letter = (" ", self.block.style)
        letters = [letter for word in words for letter in (blank, *word)][1:]
        width = self._advance(tuple(letters), size)
        free = self._width(number) - width
        wider = 0.0
        if self._fills_lines and number < count - 1 and len(words) > 1:
            wider = max(0.0, free / (len(words) - 1))
            wider = wider if wider <= _WIDEST_BLANK * size else 0.0
            width += wider * (len(words) - 1)
        left = self._left(number, width)
        parts = [f"BT {_matrix(self.block.turns, left, y)} Tm"]
        for style, font, glyphs in self._shaped(letters):
            parts.append(self._run(style, font, glyphs, size, wider))
        parts.append("ET")
        return " ".join(parts).encode(), left, left + width

    def _left(self, number: int, width: float) -> float:
        room = self.room
        if self._alignment == "centre":
            return (room.left + room.right - width) / 2
        if self._alignment == "right":
            return max(room.left, min(self.block.right, room.right) - width)
        return room.left + max(0.0, self._indent if number == 0 else -self._indent)

    def _run(
        self,
        style: Style,
        font: Typeface,
        glyphs: Sequence[ShapedGlyph],
        size: float,
        wider: float,
    ) -> str:
        scale = size * (_SCRIPT if style.script else 1.0)
        red, green, blue = (f"{part / 255:.3g}" for part in style.colour)
        thousandth = font.size * font.width / 1000
        shown: list[str] = []
        for glyph in glyphs:
            font.use(glyph)
            back = glyph.x + font.natural(glyph) - glyph.advance
            if glyph.text == " ":
                back -= wider / scale
            before = f" {-glyph.x / thousandth:.1f} " if glyph.x else ""
            after = f" {back / thousandth:.1f} " if abs(back) > thousandth else ""
            shown.append(f"{before}<{glyph.number:04x}>{after}")
        text = "".join(shown).replace("><", "")
        return (
            f"/{self.typefaces.name_of(font)} {scale * font.size:.4f} Tf {100 * font.width:g} Tz "
            f"{_RISE[style.script] * size:.3f} Ts {red} {green} {blue} rg [{text}] TJ"
        )


def _matrix(turns: int, x: float, y: float) -> str:
    a, b = ((1, 0), (0, 1), (-1, 0), (0, -1))[turns]
    x, y = turned(x, y, -turns)
    return f"{a} {b} {-b} {a} {x:.3f} {y:.3f}"
