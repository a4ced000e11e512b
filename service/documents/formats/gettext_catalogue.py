"""Opens message catalogues of gettext (.po). Missing translations are written.

Existing translations, fuzzy and obsolete ones included, stay as they are.
"""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Iterable, Iterator
from functools import partial

import polib

from service.documents.containers.encoding import EncodedText, decode
from service.documents.containers.messages import Entry, MessagesDocument
from service.documents.fragments.fragment import Piece
from service.documents.fragments.lines import lines_of
from service.documents.fragments.message import (
    MARKUP,
    Message,
    escaped,
    is_html,
    pieces_of,
    tag_piece,
)
from service.documents.types import UNKNOWN, BrokenDocument, Document, Languages

_WIDTH = 76
_CHARSET = re.compile(
    r"^\"Content-Type:[^\n]*?\bcharset=([\w.:-]+)", re.MULTILINE | re.IGNORECASE | re.ASCII
)
_LANGUAGE = re.compile(r"^\"Language:( *)\\n\"", re.MULTILINE)
_HEADER_BYTES = 4096
_UNQUOTED = re.compile(r'(?:msg[^"#]*)?"(?:[^"\\]|\\.)*$')
"""A line with a string that does not end."""
_STRING = r'"(?:[^"\\]|\\.)*+"'
_FIELD = re.compile(
    rf"^[ \t]*(?:(?P<name>msgid|msgid_plural|msgstr)|msgstr\[(?P<form>\d+)\])\s*"
    rf"(?P<strings>{_STRING}(?:\s*{_STRING})*+)",
    re.MULTILINE,
)
_TOKEN = re.compile(
    r"(?P<backslash>\\\\) | (?P<end>(?:\\r)?\\n)"
    # An escape character may begin a colour.
    r" | (?P<escape>\\(?:[0-7]+|x[0-9a-fA-F]+|a)(?:\[[\d;]*m)?)"
    rf" | {MARKUP}",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_SYNTAX = re.compile(r"\(line (\d+)\)")


def open_po(content: bytes, languages: Languages = UNKNOWN) -> Document:
    """Open a catalogue; raises ``BrokenDocument``."""
    stated = _CHARSET.search(content[:_HEADER_BYTES].decode("latin-1"))
    # A template says CHARSET.
    declared = "" if stated is None or stated[1] == "CHARSET" else stated[1]
    try:
        file = decode(content, languages.source, declared)
    except LookupError as error:
        raise BrokenDocument(f"the charset {declared[:40]} is unknown; use UTF-8") from error
    for number, (_, line) in enumerate(lines_of(file.text), start=1):
        # polib takes the last character of such a line for its quote.
        if _UNQUOTED.match(line):
            raise BrokenDocument(f"the file is no catalogue of gettext: line {number} is broken")
    if entries := list(_missing(file.text)):
        entries = [*_header(file.text, languages.target), *entries]
        file = EncodedText(file.text, "utf-8", file.mark if file.encoding == "utf-8" else b"")
    return MessagesDocument(file, "text/x-gettext-translation", entries)


def _header(text: str, language: str) -> Iterator[Entry]:
    """The charset and the language that the header has to state, in the order of the file."""
    wanted = ((_CHARSET, "UTF-8"), (_LANGUAGE, f" {language}" if language else ""))
    header = text[:_HEADER_BYTES]
    found = [(match, value) for pattern, value in wanted if (match := pattern.search(header))]
    for match, value in sorted(found, key=lambda each: each[0].start()):
        if value:
            yield Entry(*match.span(1), value, str)


def _missing(text: str) -> Iterator[Entry]:
    """The empty translations of messages, plural forms each by itself.

    Form 0 is the singular, unless it is the only one. Messages without words are copied.
    """
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    write = partial(_string, "\r\n" if "\r\n" in text else "\n")
    for entry in _parsed(text):
        if entry.obsolete or entry.fuzzy:
            continue
        # polib is given one line more.
        fields = _FIELD.finditer(text, starts[max((entry.linenum or 0) - 2, 0)])
        sources: dict[str, str] = {}
        forms = len(entry.msgstr_plural) if entry.msgid_plural else 1
        left = forms
        for field in fields:
            if (field["name"] or "msgstr") != "msgstr":
                sources[field["name"]] = _joined(field)
                continue
            plural = field["form"] is not None and (int(field["form"]) or forms == 1)
            if not _joined(field):
                raw = sources["msgid_plural" if plural else "msgid"]
                message = _message(raw)
                yield Entry(*field.span("strings"), message if message.texts else raw, write, "")
            left -= 1
            if not left:
                break


def _parsed(text: str) -> Iterable[polib.POEntry]:
    try:
        # polib opens a file if the text is the path of one; no path begins with a line end.
        return polib.pofile("\n" + text)
    except OSError as error:
        line = _SYNTAX.search(str(error))
        where = f"line {int(line[1]) - 1}" if line else "it"
        raise BrokenDocument(f"the file is no catalogue of gettext: {where} is broken") from error
    except (ValueError, IndexError, KeyError) as error:
        raise BrokenDocument("the file is no catalogue of gettext") from error


def _joined(field: re.Match[str]) -> str:
    """The strings of a field as one, with their escapes."""
    return "".join(each[1:-1] for each in re.findall(_STRING, field["strings"]))


def _message(raw: str) -> Message:
    marked = is_html(raw)
    pieces = pieces_of(raw, partial(_read, marked), _TOKEN, _piece)
    return Message(raw, pieces, {}, partial(_written, raw if marked else None))


def _piece(found: re.Match[str]) -> Piece:
    if found["backslash"]:
        return Piece("text", "\\")
    if found["end"]:
        return Piece("break", found[0])
    if found["escape"]:
        return Piece("mark", found[0])
    return tag_piece(found)


def _read(marked: bool, raw: str) -> str:
    text = polib.unescape(raw)
    return html.unescape(text) if marked else text


def _written(value: str | None, text: str) -> str:
    """Text with escapes; ``value`` is that of a message in HTML."""
    return polib.escape(text if value is None else escaped(value, text))


def _string(line_end: str, value: str) -> str:
    """A value as one string, or one for each line behind an empty one."""
    lines = [
        part
        for line in re.split(r"(?<=\\n)", value)
        for part in textwrap.wrap(
            line, _WIDTH, drop_whitespace=False, break_long_words=False, break_on_hyphens=False
        )
    ]
    if len(lines) > 1:
        lines.insert(0, "")
    return line_end.join(f'"{line}"' for line in lines)
