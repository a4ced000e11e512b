"""Reads messages in ICU's syntax, with plural forms and selections.

The text of each form is translated by itself, as is the text around an argument with forms, which
has a stand-in for it. Other arguments with a type, such as ``{n, number}``, are kept.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from functools import partial

from service.documents.fragments.fragment import Piece
from service.documents.fragments.message import (
    MARKUP,
    Message,
    escaped,
    is_html,
    plain_message,
    tag_piece,
)

_DEEPEST = 5
"""Nested arguments with forms; deeper ones are text."""
_TOKEN = re.compile(
    rf"{MARKUP} | (?P<quoted>'[{{}}][^']*(?:''[^']*)*'(?!')) | (?P<brace>[{{}}]) | (?P<number>\#)",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_SIMPLE = re.compile(r"\{\s*\w+\s*\}")
_FORMS = re.compile(
    r"\{\s*\w+\s*,\s*(?P<kind>plural|selectordinal|select)\s*,\s*(?:offset\s*:\s*\d+)?"
)
_SELECTOR = re.compile(r"\s*(?:=\d+|[\w-]+)\s*\{")
_TYPED = re.compile(r"\{\s*\w+\s*,(?:[^{}]|\{[^{}]*\})*+\}")
_END = re.compile(r"\s*\}")
_HAS_TYPED = re.compile(r"\{\s*\w+\s*,\s*[a-z]+\s*[,}]")
_JAVA = re.compile(r"\{\d+\s*[,}]")
_BEFORE_SYNTAX = re.compile(r"'(?=[{}#|]|\Z)")


class _NotIcu(ValueError):
    """The braces of a text are no arguments."""


def icu_message(value: str, *, always: bool = False, java: bool = False) -> Message:
    """A message with ICU's arguments; one without typed arguments is a ``plain_message``.

    An apostrophe, which quotes braces in this syntax, is doubled in a translation if it is in the
    source, or if ``java`` and there is an argument with a number; elsewhere one that would quote
    becomes a typographic one. ``always`` reads every message so.
    """
    doubled = "''" in value or (java and _JAVA.search(value) is not None)
    if not (always or doubled or _HAS_TYPED.search(value)):
        return plain_message(value)
    try:
        message, end = _Reader(value, doubled=doubled).level(0, plural=False, depth=0)
    except _NotIcu:
        return plain_message(value)
    return message if end == len(value) else plain_message(value)


class _Reader:
    def __init__(self, value: str, *, doubled: bool) -> None:
        self._value = value
        self._doubled = doubled
        self._html = is_html(value)

    def level(self, start: int, *, plural: bool, depth: int) -> tuple[Message, int]:
        """The message from ``start`` to a brace that closes more than is open, or to the end."""
        pieces: list[Piece] = []
        arguments: dict[str, Sequence[str | Message]] = {}
        text_start = position = start
        while found := _TOKEN.search(self._value, position):
            if found["brace"] == "}" and depth:
                break
            position = found.end()
            if found["brace"]:
                if simple := _SIMPLE.match(self._value, found.start()):
                    position = simple.end()
                    continue
                position, parts = self._argument(found.start(), plural=plural, depth=depth)
                raw = self._value[found.start() : position]
                arguments |= {raw: parts} if parts else {}
                piece = Piece("word", raw)
            elif found["number"]:
                if not plural:
                    continue
                piece = Piece("word", "#")
            else:
                piece = Piece("thing", found[0]) if found["quoted"] else tag_piece(found)
            pieces += self._text(text_start, found.start()), piece
            text_start = position
        end = found.start() if found else len(self._value)
        if depth and not found:
            raise _NotIcu
        pieces.append(self._text(text_start, end))
        write = partial(_write, self._value, doubled=self._doubled, html=self._html)
        return Message(self._value[start:end], pieces, arguments, write), end

    def _argument(
        self, start: int, *, plural: bool, depth: int
    ) -> tuple[int, Sequence[str | Message]]:
        """End of the argument, and its parts if it has forms."""
        forms = _FORMS.match(self._value, start)
        if forms is None:
            typed = _TYPED.match(self._value, start)
            if typed is None:
                raise _NotIcu
            return typed.end(), ()
        if depth == _DEEPEST:
            raise _NotIcu
        parts: list[str | Message] = []
        position, end_of_last = forms.end(), start
        while selector := _SELECTOR.match(self._value, position):
            parts.append(self._value[end_of_last : selector.end()])
            message, end_of_last = self.level(
                selector.end(), plural=plural or forms["kind"] != "select", depth=depth + 1
            )
            parts.append(message)
            position = end_of_last + 1
        end = _END.match(self._value, position)
        if end is None:
            raise _NotIcu
        return end.end(), [*parts, self._value[end_of_last : end.end()]]

    def _text(self, start: int, end: int) -> Piece:
        text = self._value[start:end]
        text = text.replace("''", "'") if self._doubled else text
        return Piece("text", html.unescape(text) if self._html else text)


def _write(value: str, text: str, *, doubled: bool, html: bool) -> str:
    text = escaped(value, text) if html else text
    return text.replace("'", "''") if doubled else _BEFORE_SYNTAX.sub("\u2019", text)
