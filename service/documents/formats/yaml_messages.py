"""Reads and writes messages in YAML. Only values that are strings change, each in its style.

PyYAML's parser gives the places of scalars; no alias is expanded and no object constructed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import langcodes
import yaml
from yaml.events import (
    CollectionEndEvent,
    CollectionStartEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
)

from service.documents.containers.encoding import decode
from service.documents.containers.messages import Entry, MessagesDocument
from service.documents.fragments.icu import icu_message
from service.documents.types import UNKNOWN, BrokenDocument, Document, Languages

_MEDIA_TYPE = "application/yaml"
_DEEPEST = 100
_STRING = "tag:yaml.org,2002:str"
_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")
"""Anchor and tag before a scalar."""
_HEADER = re.compile(r"[|>](.*?)(\r\n|[\n\r\x85\u2028\u2029])")
_FIRST = re.compile(r"^([ ]*)\S", re.MULTILINE)
_LINE = re.compile(r"[\n\r\x85\u2028\u2029]+")
_SEPARATOR = re.compile(r"[\r\x85\u2028\u2029]")
_RESOLVER = yaml.resolver.Resolver()


def open_yaml(content: bytes, languages: Languages = UNKNOWN) -> Document:
    """Open a file of messages; raises ``BrokenDocument``.

    A single key at the top that is the source language, as in Rails, becomes the target language.
    """
    file = decode(content, languages.source)
    try:
        return MessagesDocument(file, _MEDIA_TYPE, _entries(file.text, languages))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = "" if mark is None else f"line {mark.line + 1}: "
        raise BrokenDocument(f"the file is no YAML: {line}{error.problem}") from error
    except yaml.reader.ReaderError as error:
        raise BrokenDocument(
            f"the file is no YAML: character {error.position} is a control character"
        ) from error


def _entries(text: str, languages: Languages) -> list[Entry]:
    entries: list[Entry] = []
    roots: list[ScalarEvent] = []
    for event, is_key, around in _nodes(text):
        if not isinstance(event, ScalarEvent):
            continue
        if is_key and len(around) == 1:
            roots.append(event)
        if is_key or not _is_string(event):
            continue
        start, end = _span(event, text)
        block = event.style in ("|", ">")
        written = (
            partial(_block, text[start:end]) if block else partial(_line, event.style, any(around))
        )
        entries.append(Entry(start, end, icu_message(event.value), written))
    if len(roots) == 1 and languages.target and _is_language(roots[0].value, languages.source):
        (root,) = roots
        written = partial(_line, root.style, False)
        entries.insert(0, Entry(*_span(root, text), languages.target, written))
    return entries


def _nodes(text: str) -> Iterator[tuple[NodeEvent, bool, list[bool]]]:
    """Each node, whether it is a key of a mapping, and whether collections around it are in flow
    style."""
    expects_key: list[bool | None] = []
    """An entry for each open collection: whether a mapping expects a key; ``None`` in a list."""
    in_flow: list[bool] = []
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, CollectionEndEvent):
            expects_key.pop()
            in_flow.pop()
        if not isinstance(event, NodeEvent):
            continue
        is_key = bool(expects_key and expects_key[-1])
        yield event, is_key, in_flow
        if expects_key and expects_key[-1] is not None:
            expects_key[-1] = not is_key
        if isinstance(event, CollectionStartEvent):
            expects_key.append(True if isinstance(event, MappingStartEvent) else None)
            in_flow.append(bool(event.flow_style))
        if len(in_flow) > _DEEPEST:
            raise BrokenDocument(f"the file is nested more than {_DEEPEST} levels deep")


def _span(event: ScalarEvent, text: str) -> tuple[int, int]:
    """Start and end of a scalar without its anchor and tag."""
    assert event.start_mark is not None and event.end_mark is not None
    start = event.start_mark.index
    if event.anchor is not None or event.tag is not None:
        properties = _PROPERTIES.match(text, start)
        start = properties.end() if properties else start
    return start, event.end_mark.index


def _is_string(event: ScalarEvent) -> bool:
    """Whether YAML 1.1 reads a scalar as a string, not as a number, a date or a truth value."""
    if event.tag is not None:
        return event.tag == _STRING
    kind = _RESOLVER.resolve(yaml.ScalarNode, event.value, event.implicit)  # type: ignore[no-untyped-call]
    return bool(kind == _STRING)


def _is_language(key: str, source: str) -> bool:
    if source:
        return key.replace("_", "-").partition("-")[0].lower() == source.partition("-")[0].lower()
    return len(key.partition("-")[0]) == len("en") and langcodes.tag_is_valid(key)


def _line(style: str | None, in_flow: bool, value: str) -> str:
    """A scalar of one line in a style, or in the next one that can express the value."""
    written: str = yaml.safe_dump(
        [value] if in_flow else value,
        default_style='"' if _LINE.search(value) else style,
        default_flow_style=True,
        allow_unicode=True,
        width=2 * len(value) + 100,
    )
    # The end of a document follows a plain scalar.
    return written[1:-2] if in_flow else written.removesuffix("...\n")[:-1]


def _block(raw: str, value: str) -> str:
    """A block scalar with the header, the indentation and the last line ends of ``raw``.

    A folded one with indented lines becomes a literal one, and one whose lines begin with tabs or
    end in another way than with a line feed a quoted one.
    """
    header = _HEADER.match(raw)
    assert header is not None
    body = raw[header.end() :]
    end = body[len(body.rstrip()) :]
    first, own = _FIRST.search(body), _FIRST.search(value)
    if first is None or own is None or _SEPARATOR.search(value):
        return _line('"', False, value) + end
    lines = value.rstrip().split("\n")
    indentation = " " * (len(first[1]) - len(own[1]))
    style = raw[0]
    if style == ">" and any(line[:1].isspace() for line in lines):
        style = "|"
    newline = header[2]
    parts: list[str] = []
    for line in lines:
        # A line end between two lines of text is folded to a blank.
        gap = newline if style == ">" and line and any(parts) else ""
        parts.append(f"{gap}{indentation if line else ''}{line}")
    return f"{style}{header[1]}{newline}{newline.join(parts)}{end}"
