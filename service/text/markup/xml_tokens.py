"""Lossless tokenizer for XML documents and fragments; rejects malformed XML.

Tag names have no predefined meaning. By default, an element is inline if its parent has text of its
own or is itself inline.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.parsers import expat

from service.text.markup.tokens import Token
from service.text.markup.types import MalformedMarkup, Markup

_TOKEN = re.compile(
    r"""
      (?P<silent><!--.*?-->|<\?.*?\?>|<!DOCTYPE\s[^<>\[\]]*>)
    | (?P<cdata><!\[CDATA\[.*?\]\]>)
    | <(?P<end>/?)(?P<name>[^\s/<>]++)(?:[^<>"']++|"[^"]*+"|'[^']*+')*+>
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_PROLOGUE = re.compile(r"(?:\s*<\?xml\s[^>]*\?>)?(?:\s*+<!DOCTYPE\s[^<>\[\]]*>)?", re.IGNORECASE)
"""Declaration and document type; one with declarations of its own, in brackets, is refused."""
_ENTITY = re.compile(r"&(?:#([0-9]+)|#x([0-9a-fA-F]+)|(amp|lt|gt|quot|apos));")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_WRAPPER = "fragment"


def read(text: str, markup: Markup) -> Iterator[Token]:
    """The tokens of a text, see ``Token``; raises ``MalformedMarkup``."""
    _check(text)
    position = 0
    inline = _inline(text, markup)
    opened: list[bool] = []
    for found in _TOKEN.finditer(text):
        if position < found.start():
            yield Token("text", text[position : found.start()])
        position = found.end()
        raw, name = found[0], found["name"]
        if found["silent"]:
            yield Token("silent", raw)
        elif found["cdata"]:
            yield Token("empty", raw, untouched=True)
        elif found["end"]:
            yield Token("close", raw, opened.pop())
        else:
            breaks, untouched = not next(inline), name in markup.ignore_tags
            if raw.endswith("/>"):
                yield Token("empty", raw, breaks, untouched)
            else:
                opened.append(breaks)
                yield Token("open", raw, breaks, untouched)
    if position < len(text):
        yield Token("text", text[position:])


def decode(raw: str) -> list[tuple[str, str]]:
    """Resolve character references; see ``Decoder``."""
    parts = []
    position = 0
    for found in _ENTITY.finditer(raw):
        decimal, hexadecimal, name = found.groups()
        plain = _NAMED[name] if name else chr(int(decimal or hexadecimal, 10 if decimal else 16))
        parts.append((raw[position : found.start()],) * 2)
        parts.append((found[0], plain))
        position = found.end()
    parts.append((raw[position:],) * 2)
    return [part for part in parts if part[0]]


def _inline(text: str, markup: Markup) -> Iterator[bool]:
    """Whether each element is inline, in the order of start tags."""
    parents: list[int] = []
    names: list[str] = []
    has_text = [not markup.outline_detection]
    """Index 0 is the whole text, then one entry per element."""
    path = [0]
    position = 0
    for found in _TOKEN.finditer(text):
        has_text[path[-1]] |= not text[position : found.start()].isspace() and (
            position < found.start()
        )
        position = found.end()
        if found["cdata"]:
            has_text[path[-1]] = True
        elif found["end"]:
            path.pop()
        elif found["name"]:
            parents.append(path[-1])
            names.append(found["name"])
            has_text.append(not markup.outline_detection)
            if not found[0].endswith("/>"):
                path.append(len(names))
    has_text[0] |= bool(text[position:].strip())

    inline = [False]
    for parent, name in zip(parents, names, strict=True):
        inline.append(
            name in markup.non_splitting_tags
            or (name not in markup.splitting_tags and (inline[parent] or has_text[parent]))
        )
        yield inline[-1]


def _check(text: str) -> None:
    """Raise ``MalformedMarkup`` unless ``text`` is well-formed content of an element."""
    prologue = _PROLOGUE.match(text)
    assert prologue is not None
    text = re.sub(r"\S", " ", prologue[0]) + text[prologue.end() :]
    parser = expat.ParserCreate("utf-8")
    depth = 0

    def fail(reason: str) -> MalformedMarkup:
        line, column = parser.CurrentLineNumber, parser.CurrentColumnNumber
        return MalformedMarkup(reason, line, column - (len(_WRAPPER) + 2 if line == 1 else 0))

    def enter(name: str, attributes: object) -> None:
        nonlocal depth
        depth += 1

    def leave(name: str) -> None:
        nonlocal depth
        depth -= 1
        if depth == 0 and parser.CurrentByteIndex < len(wrapped) - len(f"</{_WRAPPER}>"):
            raise fail("an end tag ends nothing")

    parser.StartElementHandler = enter
    parser.EndElementHandler = leave
    wrapped = f"<{_WRAPPER}>{text}</{_WRAPPER}>".encode(errors="surrogatepass")
    try:
        parser.Parse(wrapped, True)
    except expat.ExpatError as error:
        # Expat reports the position after "<!".
        if wrapped.startswith(b"<!DOCTYPE", parser.CurrentByteIndex - 2):
            raise fail("a document type is not accepted") from error
        raise fail(expat.ErrorString(error.code)) from error
