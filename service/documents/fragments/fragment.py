"""Converts formatted text to neutral XML for translation, and its translation back to pieces.

A document format splits its text into pieces: text and tags. Pairs of tags become
``<g id="1">…</g>``, inline objects ``<x id="2"/>``, and breaks, which end a sentence,
``<n id="3"/>``. An object that is a word of its sentence, such as code, is ``<w id="4">XY-4</w>``:
the network reads and copies the stand-in ``XY-4``, and the object replaces it in the translation.
Blanks, marks and enclosing pairs at both ends are not sent to translation.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal
from xml.sax.saxutils import escape

from service.documents.types import MarkedSource, MarkupLost
from service.text.markup import Markup

Kind = Literal["text", "open", "close", "word", "thing", "mark", "break"]
"""A *word* is an object that a sentence needs as a word, such as code. A *thing* is another part of
a sentence, such as a picture. A *mark* has no width, such as a bookmark."""

_MARKUP = Markup(
    "xml",
    splitting_tags=frozenset({"n"}),
    non_splitting_tags=frozenset({"g", "w", "x"}),
    outline_detection=False,
)
_TAG = re.compile(r'<(?:(?P<name>[gnwx]) id="(?P<number>\d+)"\s*/?|/g)>')
_STAND_IN = "XY-"
"""Prefix of a placeholder's number. Of five, general-de-en copies it best (docs/log.md)."""
_NOT_IN_XML = re.compile("([\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff])")
_REFERENCE = re.compile(r"&(?:#x([0-9A-Fa-f]{1,6})|#([0-9]{1,7})|(amp|lt|gt|quot|apos));")
_NAMED = MappingProxyType({"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"})


@dataclass(frozen=True, slots=True)
class Piece:
    """A text, or a tag; ``text`` of a tag is its form in the document."""

    kind: Kind
    text: str
    name: str = ""
    """Name of an opening or closing tag, used to match pairs."""
    number: int = 0
    """Number of a tag in its fragment, set by the fragment; a pair shares one number."""
    short: str = ""
    """Shorter form of a closing tag, valid only while the text of its pair is unchanged."""


class Fragment:
    """Pieces in order. Opening and closing tags without counterpart become marks."""

    def __init__(self, pieces: Iterable[Piece]) -> None:
        before, core, after = _trim(_merge_texts(_pair_tags(_replaceable([*_expressible(pieces)]))))
        self._before = before
        self._core = core
        self._after = after

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """All pieces, untranslated."""
        return (*self._before, *self._core, *self._after)

    @property
    def source(self) -> MarkedSource | None:
        """The text to translate; ``None`` without a letter or digit."""
        text = "".join(piece.text for piece in self._core if piece.kind == "text")
        if not any(character.isalnum() for character in text):
            return None
        if all(piece.kind == "text" for piece in self._core):
            return MarkedSource(text)
        return MarkedSource("".join(map(_to_xml, self._core)), _MARKUP, len(text))

    def replaced(self, translation: str) -> tuple[Piece, ...]:
        """All pieces, with the text and the order of tags from ``translation``.

        Raises ``MarkupLost`` unless it has every tag of ``source`` exactly once, properly nested.
        """
        if all(piece.kind == "text" for piece in self._core):
            return (*self._before, Piece("text", translation), *self._after)
        for piece in self._core:
            if piece.kind == "word":
                translation = _without_stand_in(translation, piece.number)
        core = tuple(self._read(translation))
        if sorted(_to_xml(piece) for piece in core if piece.kind != "text") != sorted(
            _to_xml(piece) for piece in self._core if piece.kind != "text"
        ):
            raise MarkupLost
        return (*self._before, *core, *self._after)

    def _read(self, translation: str) -> Iterator[Piece]:
        tags = {(piece.number, piece.kind == "close"): piece for piece in self._core}
        opened: list[int] = []
        end_of_last = 0
        for tag in _TAG.finditer(translation):
            if tag.start() > end_of_last:
                yield Piece("text", _unescape(translation[end_of_last : tag.start()]))
            end_of_last = tag.end()
            closes = tag["name"] is None
            if closes and not opened:
                raise MarkupLost
            number = opened.pop() if closes else int(tag["number"])
            if (number, closes) not in tags:
                raise MarkupLost
            if tag["name"] == "g":
                opened.append(number)
            yield tags[number, closes]
        if end_of_last < len(translation):
            yield Piece("text", _unescape(translation[end_of_last:]))


def _expressible(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The pieces; characters that XML cannot represent become marks."""
    for piece in pieces:
        if piece.kind != "text":
            yield piece
            continue
        for number, part in enumerate(_NOT_IN_XML.split(piece.text)):
            yield Piece("mark" if number % 2 else "text", part)


def _replaceable(pieces: list[Piece]) -> list[Piece]:
    """The pieces; words become things if the text itself contains what would stand for them."""
    if any(_STAND_IN in piece.text for piece in pieces if piece.kind == "text"):
        return [replace(p, kind="thing") if p.kind == "word" else p for p in pieces]
    return pieces


def _pair_tags(pieces: list[Piece]) -> list[Piece]:
    """Number the tags, and turn those without counterpart into marks."""
    counterpart: dict[int, int] = {}
    opened: list[int] = []
    waiting: defaultdict[str, list[int]] = defaultdict(list)
    for place, piece in enumerate(pieces):
        if piece.kind == "open":
            opened.append(place)
            waiting[piece.name].append(place)
        elif piece.kind == "close" and waiting[piece.name]:
            start = waiting[piece.name][-1]
            counterpart[place], counterpart[start] = start, place
            while opened and opened[-1] >= start:
                waiting[pieces[opened.pop()].name].pop()
    numbers: dict[int, int] = {}
    numbered = []
    for place, piece in enumerate(pieces):
        if piece.kind in ("open", "close") and place not in counterpart:
            piece = replace(piece, kind="mark")
        if piece.kind != "text":
            first = min(place, counterpart.get(place, place))
            piece = replace(piece, number=numbers.setdefault(first, len(numbers) + 1))
        numbered.append(piece)
    return numbered


def _merge_texts(pieces: Iterable[Piece]) -> list[Piece]:
    """Merge adjacent texts and drop empty ones."""
    joined: list[Piece] = []
    for piece in pieces:
        if piece.kind == "text" and joined and joined[-1].kind == "text":
            joined[-1] = Piece("text", joined[-1].text + piece.text)
        elif piece.kind != "text" or piece.text:
            joined.append(piece)
    return joined


def _trim(
    pieces: Iterable[Piece],
) -> tuple[tuple[Piece, ...], tuple[Piece, ...], tuple[Piece, ...]]:
    core = deque(pieces)
    before: list[Piece] = []
    after: list[Piece] = []
    while core:
        first, last = core[0], core[-1]
        if first.kind in ("mark", "break") or (not first.text.strip() and first.kind == "text"):
            before.append(core.popleft())
        elif last.kind in ("mark", "break") or (not last.text.strip() and last.kind == "text"):
            after.append(core.pop())
        elif first.kind == "open" and last.kind == "close" and first.number == last.number:
            before.append(core.popleft())
            after.append(core.pop())
        elif first.kind == "text" and first.text[0].isspace():
            stripped = first.text.lstrip()
            before.append(Piece("text", first.text[: -len(stripped)]))
            core[0] = Piece("text", stripped)
        elif last.kind == "text" and last.text[-1].isspace():
            stripped = last.text.rstrip()
            after.append(Piece("text", last.text[len(stripped) :]))
            core[-1] = Piece("text", stripped)
        else:
            break
    return tuple(before), tuple(core), tuple(reversed(after))


def _to_xml(piece: Piece) -> str:
    match piece.kind:
        case "text":
            return escape(piece.text)
        case "open":
            return f'<g id="{piece.number}">'
        case "close":
            return "</g>"
        case "break":
            return f'<n id="{piece.number}"/>'
        case "word":
            return f'<w id="{piece.number}">{_STAND_IN}{piece.number}</w>'
        case _:
            return f'<x id="{piece.number}"/>'


def _without_stand_in(translation: str, number: int) -> str:
    """The translation with ``<w id="4"/>`` in place of one ``XY-4``, and without further ones.

    The network may have lost the stand-in; its element, placed by word alignment, then says where
    the object belongs. Raises ``MarkupLost`` without the element.
    """
    opening, closing = f'<w id="{number}">', "</w>"
    start = translation.find(opening)
    end = translation.find(closing, start)
    if start < 0 or end < 0:
        raise MarkupLost
    before, after = translation[:start], translation[end + len(closing) :]
    aligned = translation[start + len(opening) : end]
    stand_in = re.compile(rf"{_STAND_IN}{number}(?!\d)")
    empty = f'<w id="{number}"/>'
    if stand_in.search(aligned):
        aligned = stand_in.sub(empty, aligned, count=1)
    elif stand_in.search(before + after):
        parts = stand_in.sub(empty, before, count=1), after
        if parts[0] == before:
            parts = before, stand_in.sub(empty, after, count=1)
        before, after = parts
    else:
        aligned = empty
    surplus = re.compile(rf"[ ]?{stand_in.pattern}")
    return "".join(surplus.sub("", part) for part in (before, aligned, after))


def _unescape(text: str) -> str:
    return _REFERENCE.sub(_resolve, text)


def _resolve(found: re.Match[str]) -> str:
    if found[3]:
        return _NAMED[found[3]]
    code = int(found[1], 16) if found[1] else int(found[2])
    return chr(code) if code < 0x110000 else found[0]
