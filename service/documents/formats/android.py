"""Reads and writes resources of Android (.xml): strings, arrays of strings, plurals.

Only the contents of translatable elements change.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from functools import partial

from service.documents.containers.encoding import decode
from service.documents.containers.messages import Entry, MessagesDocument
from service.documents.containers.xml_document import parsed
from service.documents.fragments.atoms import name_of
from service.documents.fragments.fragment import Piece
from service.documents.fragments.message import MARKUP, Message, pieces_of, tag_piece
from service.documents.types import UNKNOWN, BrokenDocument, Document, Languages
from service.text.markup import Markup, xml_tokens

_MEDIA_TYPE = "application/xml"
_XML = Markup("xml")
_START = re.compile(r"<([^\s/>]+)")
_LISTS = frozenset({"array", "plurals", "string-array"})
_KEPT = re.compile(r"""\btranslatable\s*=\s*["']false["']""")
_LOCALE = re.compile(r"""\btools:locale\s*=\s*["']([^"']*)""")
"""Language of the file, for tools of Android."""
_OF_STRINGS = re.compile(r"""\btype\s*=\s*["']string["']""")
_TOKEN = re.compile(
    rf"""
    (?P<escaped>(?:\s*(?<!\\)\\[nt]\s*)+)
  | (?P<blank>[ \t]*[\r\n]\s*)                        # an end of a line is one blank
  | (?P<mark><!\[CDATA\[|\]\]>|(?<!\\)")              # quotes keep the blanks in them
  | &lt;(?P<closing>/?)(?P<hidden>[a-zA-Z]\w*)(?:(?!&[gl]t;)[^<>])*(?:&gt;|>)  # escaped HTML
  | {MARKUP}
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_SPECIAL = re.compile(r"""["'\\]|\A[@?]""")
_REFERENCE = re.compile(r"&[#\w]+;")


def open_android(content: bytes, languages: Languages = UNKNOWN) -> Document:
    """Open a file whose root is ``resources``; raises ``BrokenDocument``, also for other XML."""
    root = parsed(content, "the file")
    if name_of(root) != "resources":
        raise BrokenDocument(
            f"this XML is not supported: its root is {name_of(root)[:80]}, and not resources, as "
            "in strings.xml of Android"
        )
    try:
        file = decode(content, declared=root.getroottree().docinfo.encoding or "")
    except LookupError as error:
        raise BrokenDocument("the encoding of the file is unknown; use UTF-8") from error
    return MessagesDocument(file, _MEDIA_TYPE, _entries(file.text, languages))


def _entries(text: str, languages: Languages) -> Iterator[Entry]:
    opened: list[str] = []
    """Start tags of open elements."""
    start = end = 0
    for token in xml_tokens.read(text, _XML):
        end += len(token.raw)
        if token.kind == "open":
            opened.append(token.raw)
            locale = _LOCALE.search(token.raw)
            if len(opened) == 1 and locale and languages.target:
                first = end - len(token.raw)
                yield Entry(first + locale.start(1), first + locale.end(1), languages.target, str)
            start = end if _is_translated(opened) else start
        elif token.kind == "close":
            if _is_translated(opened):
                raw = text[start : end - len(token.raw)]
                start += len(raw) - len(raw.lstrip())
                raw = raw.strip()
                yield Entry(start, start + len(raw), _message(raw), str)
            opened.pop()


def _is_translated(opened: list[str]) -> bool:
    """Whether the innermost open element is one with text to translate."""
    names = [found[1] if (found := _START.match(tag)) else "" for tag in opened[:4]]
    match names[1:]:
        case ["string"]:
            has_text = True
        case ["item"]:
            has_text = _OF_STRINGS.search(opened[-1]) is not None
        case [name, "item"]:
            has_text = name in _LISTS
        case _:
            return False
    return has_text and not any(map(_KEPT.search, opened))


def _message(raw: str) -> Message:
    plain = "<![CDATA[" in raw and not _REFERENCE.search(raw)
    pieces = pieces_of(raw, _unescaped, _TOKEN, _piece)
    return Message(raw, pieces, {}, partial(_written, plain))


def _piece(found: re.Match[str]) -> Piece:
    if found["blank"]:
        return Piece("text", " ")
    if found["mark"]:
        return Piece("mark", found[0])
    if found["escaped"]:
        return Piece("break", found[0])
    if not found["hidden"]:
        return tag_piece(found)
    name = found["hidden"].lower()
    if name in ("br", "p"):
        return Piece("break", found[0])
    return Piece("close" if found["closing"] else "open", found[0], name)


def _unescaped(raw: str) -> str:
    return _ESCAPE.sub(_resolve, html.unescape(raw))


def _resolve(escape: re.Match[str]) -> str:
    if escape[1]:
        return chr(int(escape[1], 16))
    return escape[2]


def _written(plain: bool, text: str) -> str:
    """Text with escapes; ``plain`` in a section of characters without references."""
    text = _SPECIAL.sub(r"\\\g<0>", text)
    return text if plain else html.escape(text, quote=False)
