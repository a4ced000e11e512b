"""Writes placed elements and target words as text, and decides the blanks between them.

Tags are written without blanks next to the words that they enclose. A placeholder or an address
has a blank or none next to a word as in the source. A placeholder in brackets, or a sign, has
none next to a character of a script without blanks between words.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from service.text.alignment import Span
from service.text.markup.atoms import closes, opens
from service.text.markup.marks import Element, Mark, Zero
from service.text.words import is_unspaced


@dataclass(frozen=True, slots=True)
class _Tag:
    raw: str
    opens: bool


_Event = _Tag | Zero


def write(
    root: Element, target: str, target_words: Sequence[Span], escaped: bool, start: int = 0
) -> str:
    """The translation from character ``start``, with the marks of ``root``, which must be placed.

    Elements that begin before ``start`` are left out, and placeholders there are written at
    ``start``.
    """
    written = _Writer(target, target_words, escaped, start)
    for event in _events(root):
        written.add(event)
    return written.text()


def escape(text: str) -> str:
    """Text escaped for use between tags."""
    return html.escape(text, quote=False)


def _events(root: Element) -> Iterator[_Event | int]:
    """Tags, points and the numbers of words, in the order of the translation."""
    waiting: list[Element | _Event | int] = [root]
    while waiting:
        current = waiting.pop()
        if not isinstance(current, Element):
            yield current
            continue
        content: list[Element | _Event | int] = []
        if current.opening is not None:
            content.append(_tag(current.opening))
        word, last = current.place
        for place, child in current.order:
            content.extend(range(word, place))
            content.append(child)
            word = max(word, place, child.place[1] if isinstance(child, Element) else 0)
        content.extend(range(word, last))
        if current.closing is not None:
            content.append(_tag(current.closing))
        waiting.extend(reversed(content))


def _tag(mark: Mark) -> _Tag:
    return _Tag(mark.raw, mark.kind == "open")


class _Writer:
    """Writes word by word; a gap is written once the word after it is known."""

    def __init__(
        self, target: str, target_words: Sequence[Span], escaped: bool, start: int
    ) -> None:
        self._target = target
        self._words = target_words
        self._escaped = escaped
        self._parts: list[str] = []
        self._between: list[_Event] = []
        self._last: str | None = target[:start] or None
        self._end = start
        self._open = 0
        """Number of open elements whose start tags have been written."""
        self._left_out = 0
        """Number of open elements whose start tags have been left out."""

    def add(self, event: _Event | int) -> None:
        if not isinstance(event, int):
            self._between.append(event)
            return
        start, end = self._words[event]
        if start < self._end:
            self._leave_out()
            if end > self._end:
                # Placeholders go behind the word, the rest of which is written.
                held, self._between = self._between, []
                self._write(self._end, end)
                self._between = held
            return
        self._write(start, end)

    def _write(self, start: int, end: int) -> None:
        word = self._target[start:end]
        self._write_gap(self._target[self._end : start], word)
        self._parts.append(escape(word) if self._escaped else word)
        self._last, self._end = word, end

    def _leave_out(self) -> None:
        """Leave out the start tags so far, and their end tags."""
        between, self._between = self._between, []
        for event in between:
            if isinstance(event, _Tag) and event.opens:
                self._left_out += 1
            elif isinstance(event, _Tag) and self._left_out:
                self._left_out -= 1
            else:
                self._between.append(event)

    def text(self) -> str:
        self._write_gap(self._target[self._end :], None)
        return "".join(self._parts)

    def _write_gap(self, blank: str, following: str | None) -> None:
        between, self._between = self._kept(), []
        points: list[Zero] = []
        sides: list[list[_Event]] = [[]]
        for event in between:
            if isinstance(event, Zero) and event.solid:
                points.append(event)
                sides.append([])
            else:
                sides[-1].append(event)
        blanks = [blank] if not points else self._blanks(points, blank, following)
        for number, (side, chosen) in enumerate(zip(sides, blanks, strict=True)):
            self._parts.extend(_with_blank(side, chosen))
            if number < len(points):
                self._parts.append(points[number].raw)

    def _kept(self) -> list[_Event]:
        """The events without end tags of elements whose start tags have been left out."""
        kept: list[_Event] = []
        for event in self._between:
            if isinstance(event, _Tag):
                if event.opens:
                    self._open += 1
                elif self._open:
                    self._open -= 1
                elif self._left_out:
                    self._left_out -= 1
                    continue
            kept.append(event)
        return kept

    def _blanks(self, points: list[Zero], blank: str, following: str | None) -> list[str]:
        """Blanks before the first point, between each two, and after the last."""
        last = self._last
        if last is None:
            before = blank
        elif points[0].holds_left or (opens(last[-1]) and not blank):
            before = ""
        else:
            before = blank or _blank_beside(last[-1], points[0].raw[0])
        if following is None:
            after = blank if last is not None else ""
        elif points[-1].holds_right or (closes(following[0]) and not (blank and last)):
            after = ""
        else:
            after = (blank if last is not None else "") or _blank_beside(
                following[0], points[-1].raw[-1]
            )
        inner = [
            "" if left.right == right.left == "point" else " " for left, right in pairwise(points)
        ]
        return [before, *inner, after]


def _blank_beside(character: str, edge: str) -> str:
    """The blank between a character of the translation and the ``edge`` of a placeholder.

    Readers need a blank beside an address, a mention or a path in any script.
    """
    ends = not edge.isalnum() and edge not in "@#/\\_-=&~."
    return "" if ends and is_unspaced(character) else " "


def _with_blank(side: list[_Event], blank: str) -> Iterator[str]:
    """Insert the blank after end tags and before start tags."""
    cut = 0
    for number, event in enumerate(side, start=1):
        if isinstance(event, _Tag) and not event.opens:
            cut = number
    while cut < len(side) and isinstance(side[cut], Zero) and _clings(side[cut]):
        cut += 1
    yield from (event.raw for event in side[:cut])
    yield blank
    yield from (event.raw for event in side[cut:])


def _clings(event: _Event) -> bool:
    return isinstance(event, Zero) and event.holds_left
