"""Reads and writes strings of Apple's programs (.strings). Only values change."""

from __future__ import annotations

import re
from collections.abc import Iterator

from service.documents.containers.encoding import decode
from service.documents.containers.messages import Entry, MessagesDocument
from service.documents.fragments.message import plain_message
from service.documents.types import UNKNOWN, BrokenDocument, Document, Languages

_MEDIA_TYPE = "text/x-apple-strings"
_QUOTED = r'"(?:[^"\\]++|\\.)*+"'
_BLANK = r"(?:\s++|/\*(?:[^*]++|\*(?!/))*+\*/|//[^\r\n]*+)*+"
_PAIR = re.compile(
    rf"""(?:{_QUOTED}|[\w.$/:+-]++){_BLANK}(?:={_BLANK}(?P<value>{_QUOTED})?[^\s;"]*+{_BLANK})?;"""
    rf"{_BLANK}",
    re.DOTALL,
)
_LEADING = re.compile(_BLANK)
_ESCAPE = re.compile(r"\\(?:[uU]([0-9a-fA-F]{4})|([0-7]{1,3})|(.))", re.DOTALL)
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t"}
_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"})


def open_strings(content: bytes, languages: Languages = UNKNOWN) -> Document:
    """Open a table of strings; raises ``BrokenDocument``."""
    file = decode(content, languages.source)
    return MessagesDocument(file, _MEDIA_TYPE, _entries(file.text))


def _entries(text: str) -> Iterator[Entry]:
    blank = _LEADING.match(text)
    position = blank.end() if blank else 0
    while position < len(text):
        pair = _PAIR.match(text, position)
        if pair is None:
            line = text.count("\n", 0, position) + 1
            raise BrokenDocument(
                f'line {line} is no entry of a table of strings, such as "key" = "value";'
            )
        position = pair.end()
        if pair["value"]:
            message = plain_message(_ESCAPE.sub(_resolve, pair["value"][1:-1]))
            yield Entry(*pair.span("value"), message, _written)


def _resolve(escape: re.Match[str]) -> str:
    if escape[1]:
        return chr(int(escape[1], 16))
    if escape[2]:
        return chr(int(escape[2], 8))
    return _CONTROLS.get(escape[3], escape[3])


def _written(value: str) -> str:
    return f'"{value.translate(_ESCAPED)}"'
