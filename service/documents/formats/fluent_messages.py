"""Reads and writes messages of Fluent (.ftl): patterns of messages, their attributes and variants.

Terms, which are mostly names of products, are kept. ``fluent.syntax`` gives the places.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from functools import partial

from fluent.syntax import FluentParser, ast

from service.documents.containers.encoding import decode
from service.documents.containers.messages import Entry, MessagesDocument
from service.documents.fragments.fragment import Piece
from service.documents.fragments.message import Message, escaped, is_html, pieces_of
from service.documents.types import UNKNOWN, BrokenDocument, Document, Languages

_MEDIA_TYPE = "text/x-fluent"
_NO_TEXT = re.compile(r"(?:access|command|[\w-]*-)?key|style", re.IGNORECASE)
"""Names of attributes with keys of the keyboard or styles."""
_PARAGRAPH = re.compile(r"(\s*\n[ \t\r]*\n\s*)")
_WRAPPED = re.compile(r"[ \t\r]*\n[ \t]*")
_SPECIAL = re.compile(r"[{}]|\A(?:[\[*]|\.(?=[a-zA-Z]))")
"""Braces, and what begins a variant or an attribute at the start of a line."""


def open_ftl(content: bytes, languages: Languages = UNKNOWN) -> Document:
    """Open a resource in UTF-8; ``BrokenDocument`` names the line that is no entry."""
    file = decode(content, languages.source)
    return MessagesDocument(file, _MEDIA_TYPE, list(_entries(file.text)))


def _entries(text: str) -> Iterator[Entry]:
    try:
        resource = FluentParser(with_spans=True).parse(text)
    except RecursionError as error:
        raise BrokenDocument("the file has placeables nested too deeply") from error
    for entry in resource.body:
        if isinstance(entry, ast.Junk):
            start, _ = _span(entry)
            line, reason = text.count("\n", 0, start) + 1, entry.annotations[0].message
            raise BrokenDocument(f"the file is no Fluent resource: line {line}: {reason}")
        if not isinstance(entry, ast.Message):
            continue
        labels = (each for each in entry.attributes if not _NO_TEXT.fullmatch(each.id.name))
        for pattern in (entry.value, *(each.value for each in labels)):
            if pattern is not None:
                yield Entry(*_span(pattern), _message(text, pattern), str)


def _message(text: str, pattern: ast.Pattern) -> Message:
    start, end = _span(pattern)
    marked = is_html(text[start:end])
    pieces: list[Piece] = []
    arguments: dict[str, Sequence[str | Message]] = {}
    end_of_last = start
    for element in pattern.elements:
        begins, ends = _span(element)
        # White space before the first element belongs to no element.
        pieces.append(Piece("text", text[end_of_last:begins]))
        end_of_last = ends
        raw = text[begins:ends]
        if isinstance(element, ast.TextElement):
            pieces += _text(raw, marked)
            continue
        pieces.append(Piece("word", raw))
        if isinstance(element.expression, ast.SelectExpression):
            arguments[raw] = _variants(text, element.expression, begins, ends)
    return Message(text[start:end], pieces, arguments, partial(_written, text[start:end], marked))


def _variants(
    text: str, select: ast.SelectExpression, start: int, end: int
) -> Sequence[str | Message]:
    """The parts of a placeable with variants: the messages of the variants, and all around them."""
    parts: list[str | Message] = []
    for variant in select.variants:
        begins, ends = _span(variant.value)
        parts += text[start:begins], _message(text, variant.value)
        start = ends
    return [*parts, text[start:end]]


def _text(raw: str, marked: bool) -> Iterator[Piece]:
    """The pieces of text. Lines of a paragraph are joined, as they are one sentence or more."""
    for number, part in enumerate(_PARAGRAPH.split(raw)):
        if number % 2:
            yield Piece("break", part)
        else:
            yield from pieces_of(_WRAPPED.sub(" ", part), html.unescape if marked else str)


def _written(value: str, marked: bool, text: str) -> str:
    text = escaped(value, text) if marked else text
    return _SPECIAL.sub(lambda found: f'{{"{found[0]}"}}', text)


def _span(node: ast.SyntaxNode) -> tuple[int, int]:
    assert node.span is not None
    return node.span.start, node.span.end
