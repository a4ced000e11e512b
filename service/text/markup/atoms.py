"""Splits the text between tags into atoms: text, tags, and points such as placeholders.

Also normalises the blanks around marks that the model does not see: of two blanks one is removed,
and so is a blank left before a comma. The plain text reads well without its points, and each point
records what stood next to it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from service.text.markup.placeholders import divides, find
from service.text.markup.tokens import Decoder, Token
from service.text.words import is_unspaced

Beside = Literal["blank", "text", "point", "edge"]
"""Neighbour of a point, ignoring tags; ``edge`` is the start or end of the run.

A character of a script without blanks between words is a ``blank``: a word begins and ends there.
"""


_ITEM = re.compile(r"</?(?:a|button|del|ins|label)(?=[\s>])", re.IGNORECASE)
"""Tags of elements that never share a word, as parts of a word in bold may."""


def opens(character: str) -> bool:
    """Whether a character takes no blank after it."""
    return unicodedata.category(character) in ("Ps", "Pi") or character in "¿¡"


def closes(character: str) -> bool:
    """Whether a character takes no blank before it."""
    if unicodedata.category(character) in ("Pe", "Pf"):
        return True
    return unicodedata.normalize("NFKC", character)[0] in ".,;:!?%、。"


def _quotes(character: str) -> bool:
    return character == '"' or unicodedata.category(character) in ("Pi", "Pf")


@dataclass(slots=True)
class Atom:
    """A piece of a run: ``raw`` as in the input, ``plain`` as the model reads it.

    A text whose ``raw`` and ``plain`` differ is never split. Marks have no ``plain``. ``solid``
    marks are visible to readers, as a word is. ``at`` is the offset in the run's plain text.
    """

    kind: Literal["text", "open", "close", "point"]
    raw: str
    plain: str = ""
    solid: bool = False
    protected: bool = False
    """Whether it takes the place of a word, such as a placeholder."""
    divides: bool = False
    """Whether it ends a run, as a leader of dots does."""
    flowing: bool = False
    at: int = 0
    left: Beside = "edge"
    right: Beside = "edge"

    @property
    def blank(self) -> bool:
        return self.kind == "text" and not self.plain.strip(" \t")


_EDGES = re.compile(r"\A[ \t]+|[ \t]+\Z|[^ \t](?:.*[^ \t])?", re.DOTALL)
_FLOWING = re.compile(r"[ \t\n\f\r]+|[^ \t\n\f\r]+(?: [^ \t\n\f\r]+)*+")


def atoms(token: Token, decode: Decoder) -> Iterator[Atom]:
    """The atoms of one token."""
    match token.kind:
        case "text":
            yield from _text(token, decode)
        case "open" | "close":
            yield Atom(token.kind, token.raw)
        case "empty":
            yield Atom("point", token.raw, solid=True, protected=token.untouched)
        case "silent":
            yield Atom("point", token.raw)


def _text(token: Token, decode: Decoder) -> Iterator[Atom]:
    parts = decode(token.raw)
    spans = iter(find("".join(plain for _, plain in parts)))
    start, end = next(spans, (-1, -1))
    held: list[str] = []
    position = 0
    for raw, plain in parts:
        offset = 0
        while offset < len(plain) or not plain:
            here = position + offset
            if (
                held
                or here == start
                or (raw != plain and position <= start < position + len(plain))
            ):
                taken = min(len(plain), end - position) if raw == plain else len(plain)
                held.append(raw[offset:taken] if raw == plain else raw)
                offset = taken
                if position + offset >= end:
                    point = "".join(held)
                    yield Atom("point", point, solid=True, protected=True, divides=divides(point))
                    held = []
                    while 0 <= start < position + offset:
                        start, end = next(spans, (-1, -1))
            elif raw != plain:
                yield Atom("text", raw, plain, flowing=token.flowing)
                offset = len(plain)
            else:
                until = min(len(plain), start - position) if start > here else len(plain)
                yield from _literal(raw[offset:until], token.flowing)
                offset = until
            if not plain:
                break
        position += len(plain)


def _literal(raw: str, flowing: bool) -> Iterator[Atom]:
    for found in (_FLOWING if flowing else _EDGES).finditer(raw):
        plain = " " if flowing and found[0].isspace() and found[0].isascii() else found[0]
        yield Atom("text", found[0], plain, flowing=flowing)


def settle(run: list[Atom]) -> list[Atom]:
    """Set each mark's neighbours, set blanks as they are read, and set the offsets."""
    run = _with_blanks_between_items(run)
    _look_around(run)
    return list(_count(_without_lonely_blanks(run)))


def _with_blanks_between_items(run: list[Atom]) -> list[Atom]:
    """The run with a blank where the words of two links or the like would touch."""
    result: list[Atom] = []
    before, ended, place = "", False, -1
    for atom in run:
        if atom.kind == "close" and _ITEM.match(atom.raw):
            ended = True
        elif atom.kind == "open" and ended and _ITEM.match(atom.raw):
            place = len(result)
        elif atom.plain or atom.protected:
            if place >= 0 and before.isalnum() and atom.plain[:1].isalnum():
                result.insert(place, Atom("text", "", " "))
            before, ended, place = atom.plain[-1:], False, -1
        result.append(atom)
    return result


def _look_around(run: list[Atom]) -> None:
    beside: Beside = "edge"
    for atom in run:
        atom.left = beside
        beside = _seen(atom, beside)
    beside = "edge"
    for atom in reversed(run):
        atom.right = beside
        beside = _seen(atom, beside, first=True)


def _seen(atom: Atom, before: Beside, first: bool = False) -> Beside:
    if atom.kind == "text" and atom.plain:
        character = atom.plain[0 if first else -1]
        return "blank" if character.isspace() or is_unspaced(character) else "text"
    return "point" if atom.solid else before


def _without_lonely_blanks(run: list[Atom]) -> list[Atom]:
    following = _following_texts(run)
    kept: list[Atom] = []
    """Text atoms so far whose ``plain`` is not empty."""
    result: list[Atom] = []
    for index, atom in enumerate(run):
        result.append(atom)
        if atom.kind == "text" and atom.plain:
            if atom.flowing and atom.blank and kept and kept[-1].plain.endswith(" "):
                atom.plain = ""
            else:
                kept.append(atom)
        elif atom.kind == "point":
            coming = following[index]
            while coming is not None and not coming[1].plain:
                coming = following[coming[0]]
            if kept and coming is not None:
                _close_up(kept, atom, coming[1], result)
    return result


def _close_up(kept: list[Atom], point: Atom, coming: Atom, result: list[Atom]) -> None:
    last = kept[-1]
    before, after = last.plain[-1], coming.plain[0]
    if last.blank and coming.blank:
        coming.plain = ""
    elif last.blank and (after.isspace() or closes(after) or _quotes(after)):
        last.plain = ""
        kept.pop()
    elif coming.blank and (opens(before) or _quotes(before)):
        coming.plain = ""
    elif is_unspaced(before) and is_unspaced(after):
        return
    elif point.protected and before.isalnum() and after.isalnum():
        blank = Atom("text", "", " ")
        kept.append(blank)
        result.append(blank)


def _following_texts(run: list[Atom]) -> list[tuple[int, Atom] | None]:
    """Index of the next text after each atom whose ``plain`` is not empty, and that text."""
    following: list[tuple[int, Atom] | None] = []
    coming: tuple[int, Atom] | None = None
    for index in range(len(run) - 1, -1, -1):
        following.append(coming)
        if run[index].kind == "text" and run[index].plain:
            coming = (index, run[index])
    return following[::-1]


def _count(run: Iterable[Atom]) -> Iterator[Atom]:
    at = 0
    for atom in run:
        atom.at = at
        at += len(atom.plain)
        yield atom
