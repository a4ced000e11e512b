"""Lossless tokenizer for HTML that need not be well formed.

Tags and comments are found as browsers find them, with one difference: a ``<`` that is followed by
another ``<`` before any ``>`` is text. Attributes are not translated.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from service.text.alignment import Span
from service.text.markup.html_names import BREAKING, CLOSED_BY, RAW_TEXT, TEXT_ONLY, UNTOUCHED, VOID
from service.text.markup.tokens import Token
from service.text.markup.types import Markup

_TAG_START = re.compile(r"<(/?)([a-zA-Z][^\s/<>]*+)")
_ATTRIBUTES = re.compile(r"""(?:[^<>=]++|=\s*+(?:"[^"]*+"|'[^']*+')?+)*+""")
_UNQUOTED = re.compile(r"[^<>]*+")
_DOCTYPE = re.compile(r"<!doctype[^<>\[]*+\[[^\]]*+\]\s*+>", re.IGNORECASE)
"""A document type with declarations of its own."""
_ATTRIBUTE = re.compile(r"""([^\s/>"'=]+)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s>]*))?""")
_ENTITY = re.compile(r"&(?:#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[a-zA-Z][a-zA-Z0-9]{1,31};?)")
_BLANKS = frozenset(" \t\n\f\r")


@dataclass(frozen=True, slots=True)
class _Piece:
    kind: Literal["text", "start", "end", "other"]
    raw: str
    name: str = ""
    attributes: str = ""


def read(text: str, markup: Markup) -> Iterator[Token]:
    """The tokens of a text; see ``Token``."""
    return _Nesting(markup).tokens(_Lexer(text).pieces())


def decode(raw: str) -> list[tuple[str, str]]:
    """Resolve character references; see ``Decoder``."""
    parts = []
    position = 0
    for found in _ENTITY.finditer(raw):
        plain = html.unescape(found[0])
        if plain == found[0]:
            continue
        parts.append((raw[position : found.start()],) * 2)
        parts.append((found[0], " " if plain in _BLANKS else plain))
        position = found.end()
    parts.append((raw[position:],) * 2)
    return [part for part in parts if part[0]]


class _Nesting:
    """Stack of open elements. An inline end tag closes no element outside the innermost block."""

    def __init__(self, markup: Markup) -> None:
        self._breaking = (BREAKING | markup.splitting_tags) - markup.non_splitting_tags
        self._untouched = UNTOUCHED | markup.ignore_tags
        self._open: list[str] = []
        self._blocks: dict[str, int] = {}
        self._inline: list[dict[str, int]] = [{}]
        """Number of open elements by name; inline ones since each open block."""
        self._preformatted = 0

    def tokens(self, pieces: Iterator[_Piece]) -> Iterator[Token]:
        for piece in pieces:
            match piece.kind:
                case "text":
                    yield Token("text", piece.raw, flowing=not self._preformatted)
                case "start":
                    yield from self._start(piece)
                case "end":
                    yield from self._end(piece)
                case "other":
                    yield Token("silent", piece.raw, piece.name in self._breaking)
        while self._open:
            yield self._pop("")

    def _start(self, piece: _Piece) -> Iterator[Token]:
        while self._open and self._is_closed_by(piece.name):
            yield self._pop("")
        breaks = piece.name in self._breaking
        untouched = piece.name in self._untouched or _asks_not_to(piece.attributes)
        if piece.name == "wbr" and not breaks:
            yield Token("silent", piece.raw)
        elif piece.name in VOID or _closes_itself(piece.attributes):
            yield Token("empty", piece.raw, breaks, untouched)
        else:
            self._push(piece.name, breaks)
            yield Token("open", piece.raw, breaks, untouched)

    def _end(self, piece: _Piece) -> Iterator[Token]:
        breaks = piece.name in self._breaking
        if not (self._blocks if breaks else self._inline[-1]).get(piece.name):
            yield Token("silent", piece.raw, breaks)
            return
        while self._open[-1] != piece.name:
            yield self._pop("")
        yield self._pop(piece.raw)

    def _is_closed_by(self, name: str) -> bool:
        """Whether a start tag ends the innermost element.

        Never for an inline element: its tags may move, so its nesting is kept as written.
        """
        last = self._open[-1]
        return last in self._breaking and name in CLOSED_BY.get(last, ())

    def _push(self, name: str, breaks: bool) -> None:
        self._open.append(name)
        count = self._blocks if breaks else self._inline[-1]
        count[name] = count.get(name, 0) + 1
        if breaks:
            self._inline.append({})
        self._preformatted += name in ("pre", "textarea")

    def _pop(self, raw: str) -> Token:
        name = self._open.pop()
        breaks = name in self._breaking
        if breaks:
            self._inline.pop()
        (self._blocks if breaks else self._inline[-1])[name] -= 1
        self._preformatted -= name in ("pre", "textarea")
        return Token("close", raw, breaks)


def _closes_itself(attributes: str) -> bool:
    """Whether the slash at the end closes the tag and is not part of an unquoted value."""
    tail = attributes[max(map(attributes.rfind, " \t\n\f\r\"'")) + 1 :]
    return tail.endswith("/") and "=" not in tail


def _asks_not_to(attributes: str) -> bool:
    lowered = attributes.lower()
    if "translate" not in lowered:
        return False
    values: dict[str, str] = {}
    for name, value in _ATTRIBUTE.findall(lowered):
        values.setdefault(name, value.strip("\"'"))
    return values.get("translate") == "no" or "notranslate" in values.get("class", "").split()


class _Lexer:
    """Finds tags, comments and text in linear time."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._quotes_lost_until = 0
        """Up to here quotes are unbalanced, so each ``>`` ends a tag."""
        self._missing: set[str] = set()
        """Terminators that do not occur after the current position."""
        self._declared = False
        """Whether a document type has been looked for. A page has one."""

    def pieces(self) -> Iterator[_Piece]:
        text = self._text
        written = position = 0
        while (start := text.find("<", position)) >= 0:
            piece = self._markup(start)
            if piece is None:
                position = start + 1
                continue
            if written < start:
                yield _Piece("text", text[written:start])
            yield piece
            written = position = start + len(piece.raw)
            if piece.kind == "start" and piece.name in TEXT_ONLY:
                position, _ = self._end_tag(piece.name, written)
                if written < position:
                    yield _Piece("text", text[written:position])
                written = position
        if written < len(text):
            yield _Piece("text", text[written:])

    def _markup(self, start: int) -> _Piece | None:
        text = self._text
        if found := _TAG_START.match(text, start):
            return self._tag(found)
        if text.startswith("<!--", start):
            return _Piece("other", text[start : self._comment_end(start)])
        if text.startswith("<![CDATA[", start) and (end := self._find("]]>", start + 9)) >= 0:
            return _Piece("other", text[start : end + 3])
        if text.startswith("<?", start) and (end := self._find("?>", start + 2)) >= 0:
            return _Piece("other", text[start : end + 2])
        if text.startswith("<!", start) and not self._declared:
            self._declared = True
            if doctype := _DOCTYPE.match(text, start):
                return _Piece("other", doctype[0])
        if text.startswith(("<!", "<?", "</"), start):
            end = _UNQUOTED.match(text, start + 2).end()  # type: ignore[union-attr]
            if text.startswith(">", end):
                return _Piece("other", text[start : end + 1])
        return None

    def _tag(self, found: re.Match[str]) -> _Piece | None:
        text = self._text
        start = found.start()
        name = found[2].lower()
        end = -1
        if start >= self._quotes_lost_until:
            end = _ATTRIBUTES.match(text, found.end()).end()  # type: ignore[union-attr]
            if not text.startswith(">", end):
                self._quotes_lost_until = end
        if start < self._quotes_lost_until:
            end = _UNQUOTED.match(text, found.end()).end()  # type: ignore[union-attr]
        if not text.startswith(">", end):
            return None
        if found[1]:
            return _Piece("end", text[start : end + 1], name)
        if name in RAW_TEXT:
            return _Piece("other", text[start : self._end_tag(name, end + 1)[1]], name)
        return _Piece("start", text[start : end + 1], name, text[found.end() : end])

    def _end_tag(self, name: str, position: int) -> Span:
        """Start and end of the end tag of an element without child elements."""
        found = re.compile(rf"</{name}[^<>]*+>", re.IGNORECASE).search(self._text, position)
        return found.span() if found else (len(self._text),) * 2

    def _comment_end(self, start: int) -> int:
        for empty in ("<!-->", "<!--->"):
            if self._text.startswith(empty, start):
                return start + len(empty)
        end = self._find("-->", start + 4)
        return end + 3 if end >= 0 else len(self._text)

    def _find(self, wanted: str, position: int) -> int:
        if wanted in self._missing:
            return -1
        found = self._text.find(wanted, position)
        if found < 0:
            self._missing.add(wanted)
        return found
