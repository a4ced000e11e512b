"""Reads and writes messages in JSON: .json of any program, and .arb of Flutter.

Only values that are strings change; keys, numbers and white space keep their bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from service.documents.containers.encoding import decode
from service.documents.containers.messages import Entry, MessagesDocument
from service.documents.fragments.icu import icu_message
from service.documents.fragments.message import SURROGATE
from service.documents.types import UNKNOWN, BrokenDocument, Document, Languages

_MEDIA_TYPE = "application/json"
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_STRING_OR_BRACKET = re.compile(rf"{_STRING.pattern}|[\[\]{{}}]", re.DOTALL)
_DEEPEST = 100
_MESSAGE = frozenset({"message", "defaultMessage", "string"})
_NOTES = frozenset(
    {"character_limit", "comment", "context", "description", "developer_comment", "id"}
    | {"meaning", "placeholders"}
)
"""Keys beside that of a message in an object, as Chrome's extensions and FormatJS write them."""
_LANGUAGE = "@@locale"


@dataclass(frozen=True, slots=True)
class _Object:
    """An object as pairs, of which several may have the same key."""

    pairs: list[tuple[str, Any]]


def open_json(content: bytes, languages: Languages = UNKNOWN) -> Document:
    """Open a file of messages; raises ``BrokenDocument``."""
    text = decode(content, languages.source)
    return MessagesDocument(text, _MEDIA_TYPE, _Strings(text.text).entries())


def open_arb(content: bytes, languages: Languages = UNKNOWN) -> Document:
    """Open a resource bundle, whose ``@@locale`` becomes the target language.

    Raises ``BrokenDocument``.
    """
    text = decode(content, languages.source)
    strings = _Strings(text.text)
    if not isinstance(strings.root, _Object):
        raise BrokenDocument("the file is no resource bundle: it is not one object")
    return MessagesDocument(text, _MEDIA_TYPE, strings.resources(languages.target))


def parsed_json(text: str, pairs_hook: Callable[[list[tuple[str, Any]]], Any] = dict) -> Any:
    """The value of a text in JSON; raises ``BrokenDocument`` with the line of an error."""
    try:
        parsed = json.loads(text, object_pairs_hook=pairs_hook)
        deep = _depth(text) > _DEEPEST
    except json.JSONDecodeError as error:
        raise BrokenDocument(f"the file is no JSON: line {error.lineno}: {error.msg}") from error
    except RecursionError:
        deep = True
    except ValueError as error:
        # Python refuses integers of thousands of digits.
        raise BrokenDocument(f"the file is no JSON that can be read: {error}") from error
    if deep:
        raise BrokenDocument(f"the file is nested more than {_DEEPEST} levels deep")
    return parsed


def _depth(text: str) -> int:
    """How many arrays and objects are open at once in a valid text, at most."""
    depth = deepest = 0
    for found in _STRING_OR_BRACKET.finditer(text):
        depth += (found[0] in "[{") - (found[0] in "]}")
        deepest = max(deepest, depth)
    return deepest


class _Strings:
    """The strings of a file, with their places."""

    def __init__(self, text: str) -> None:
        self.root = parsed_json(text, _Object)
        self._text = text
        self._spans = (found.span() for found in _STRING.finditer(text))
        self._ascii = "\\u" in text and text.isascii()

    def entries(self) -> Iterator[Entry]:
        return self._entries(self.root)

    def resources(self, language: str) -> Iterator[Entry]:
        """The entries of a resource bundle; keys that begin with ``@`` have no messages."""
        for key, value in self.root.pairs:
            next(self._spans)
            if key == _LANGUAGE and isinstance(value, str):
                start, end = next(self._spans)
                yield Entry(start, end, language or value, json.dumps)
            elif key.startswith("@"):
                self._skip(value)
            else:
                yield from self._entries(value, always_icu=True)

    def _entries(self, node: Any, *, always_icu: bool = False) -> Iterator[Entry]:
        """The entries below a value, which stands where the next string begins."""
        match node:
            case str():
                start, end = next(self._spans)
                written = partial(_written, escapes=self._ascii, raw=self._text[start:end])
                yield Entry(start, end, icu_message(node, always=always_icu), written)
            case list():
                for value in node:
                    yield from self._entries(value, always_icu=always_icu)
            case _Object():
                keys = {key for key, _ in node.pairs}
                described = bool(keys & _MESSAGE and keys & _NOTES) and keys <= _MESSAGE | _NOTES
                for key, value in node.pairs:
                    next(self._spans)
                    if described and key in _NOTES:
                        self._skip(value)
                    else:
                        yield from self._entries(value, always_icu=always_icu)

    def _skip(self, node: Any) -> None:
        for _ in self._entries(node):
            pass


def _written(value: str, *, escapes: bool, raw: str) -> str:
    written = dumped(value, escapes=escapes)
    return written.replace("/", "\\/") if "\\/" in raw else written


def dumped(value: Any, *, escapes: bool = False, indent: int | None = None) -> str:
    """A value in JSON, indented as by Xcode; ``escapes`` writes only characters of ASCII.

    Halves of characters, which no encoding has, are always escaped.
    """
    separators = None if indent is None else (",", " : ")
    written = json.dumps(value, ensure_ascii=escapes, indent=indent, separators=separators)
    return dumped(value, escapes=True, indent=indent) if SURROGATE.search(written) else written
