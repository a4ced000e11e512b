"""Reads and writes properties of Java (.properties). Only values change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from service.documents.containers.encoding import EncodedText, decode
from service.documents.containers.messages import Entry, MessagesDocument
from service.documents.fragments.icu import icu_message
from service.documents.types import UNKNOWN, BrokenDocument, Document, Languages

_MEDIA_TYPE = "text/x-java-properties"
_LINE = re.compile(
    r"""
    (?:[ \t\f]|\\(?:\r\n|[\r\n]))*+
    (?: [#!][^\r\n]*
      | (?:\\(?:\r\n|.)|[^\\ \t\f\r\n:=])*+
        (?:[ \t\f]|\\(?:\r\n|[\r\n]))*+ [:=]?+ (?:[ \t\f]|\\(?:\r\n|[\r\n]))*+
        (?P<value>(?:\\(?:\r\n|.)|[^\\\r\n])*+)
    )
    \\?(?:\r\n|[\r\n]|\Z)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:(?:\r\n|[\r\n])[ \t\f]*|u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = str.maketrans({"\\": "\\\\"} | {value: f"\\{key}" for key, value in _CONTROLS.items()})
_C1 = re.compile("[\x7f-\x9f]")


def open_properties(content: bytes, languages: Languages = UNKNOWN) -> Document:
    """Open a file in UTF-8, UTF-16 with a mark, or Latin-1; raises ``BrokenDocument``.

    Letters that its encoding lacks are written as escapes, and all letters beyond ASCII if the file
    has none.
    """
    file = _decoded(content)
    return MessagesDocument(file, _MEDIA_TYPE, _entries(file))


def _decoded(content: bytes) -> EncodedText:
    if content.isascii():
        # A text in ASCII is UTF-8 and Latin-1; which one the program reads is unknown.
        return decode(content, declared="ascii")
    try:
        return decode(content, declared="utf-8")
    except BrokenDocument:
        file = decode(content, declared="latin-1")
        if _C1.search(file.text):
            raise
        return file


def _entries(file: EncodedText) -> Iterator[Entry]:
    position = 0
    while position < len(file.text):
        line = _LINE.match(file.text, position)
        assert line is not None
        position = line.end()
        if line["value"]:
            message = icu_message(_unescaped(line["value"]), java=True)
            yield Entry(*line.span("value"), message, partial(_written, file.encoding))


def _unescaped(raw: str) -> str:
    text = _ESCAPE.sub(_resolve, raw)
    # Two escapes of a character beyond the first 65,536 become that character.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _resolve(escape: re.Match[str]) -> str:
    if escape[1]:
        return chr(int(escape[1], 16))
    return _CONTROLS.get(escape[2], escape[2]) if escape[2] else ""


def _written(encoding: str, value: str) -> str:
    text = value.translate(_ESCAPED)
    if text[:1] == " ":
        text = "\\" + text
    return "".join(_encodable(character, encoding) for character in text)


def _encodable(character: str, encoding: str) -> str:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        units = character.encode("utf-16-be")
        return "".join(f"\\u{units[n : n + 2].hex().upper()}" for n in range(0, len(units), 2))
    return character
