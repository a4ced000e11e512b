"""Tags and points of one sentence, and the element tree built from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from service.text.markup.atoms import Beside


@dataclass(frozen=True, slots=True)
class Mark:
    """A start tag, an end tag or a point, before character ``at``.

    A tag without its partner belongs to an element that continues beyond the sentence.
    """

    kind: Literal["open", "close", "point"]
    raw: str
    at: int
    solid: bool = False
    left: Beside = "edge"
    right: Beside = "edge"


@dataclass(slots=True, eq=False)
class Element:
    """An element of the sentence and, once placed, of its translation.

    ``words`` is its half-open range of source words, ``place`` that of target words. A ``pinned``
    element continues beyond the sentence on that side.
    """

    opening: Mark | None
    start: int
    end: int
    closing: Mark | None = None
    children: list[Element | Mark] = field(default_factory=list)
    pinned: Literal["left", "right"] | None = None
    words: tuple[int, int] = (0, 0)
    place: tuple[int, int] = (0, 0)
    order: list[tuple[int, Element | Zero]] = field(default_factory=list)
    """Its contents with their start in target words; the place of an ``Element`` is not empty."""

    @property
    def is_link(self) -> bool:
        """Whether it is of no use without text."""
        return self.opening is not None and self.opening.raw.lower().startswith(("<a ", "<a\n"))

    @property
    def has_words(self) -> bool:
        return self.words[0] < self.words[1]


@dataclass(slots=True, eq=False)
class Zero:
    """Marks that are written together, without words between them.

    ``left`` and ``right`` are those of its solid marks. It is ``solid`` if any mark is.
    """

    raw: str
    solid: bool
    left: Beside
    right: Beside
    holds_left: bool = False
    """Whether no blank separates it from the word before, in the source and as placed."""
    holds_right: bool = False


def tree(marks: Sequence[Mark], length: int) -> Element:
    """The element tree of a sentence of ``length`` characters; the root is the whole sentence."""
    root = Element(None, 0, length)
    path = [root]
    for mark in marks:
        if mark.kind == "point":
            path[-1].children.append(mark)
        elif mark.kind == "open":
            element = Element(mark, mark.at, length)
            path[-1].children.append(element)
            path.append(element)
        elif len(path) > 1:
            element = path.pop()
            element.closing, element.end = mark, mark.at
        else:
            element = Element(None, 0, mark.at, mark, root.children, "left")
            root.children = [element]
    for element in path[1:]:
        element.pinned = "right"
    return root


def flat(content: Element | Mark) -> Zero:
    """All marks of an element, without the words between them."""
    parts: list[str] = []
    left: Beside = "edge"
    right: Beside = "edge"
    solid = False
    for mark in _marks(content):
        if mark.solid:
            if not solid:
                left = mark.left
            elif not (right == "point" and mark.left == "point"):
                parts.append(" ")
            solid, right = True, mark.right
        parts.append(mark.raw)
    if not solid and isinstance(content, Mark):
        left, right = content.left, content.right
    return Zero("".join(parts), solid, left, right)


def _marks(content: Element | Mark) -> Iterator[Mark]:
    waiting: list[Element | Mark | None] = [content]
    while waiting:
        current = waiting.pop()
        if isinstance(current, Mark):
            yield current
        elif current is not None:
            if current.opening is not None:
                yield current.opening
            waiting.append(current.closing)
            waiting.extend(reversed(current.children))
