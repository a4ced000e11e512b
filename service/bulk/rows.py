"""What a line of a file holds: a text to translate, and the bytes around its translation.

Three formats: plain lines, columns separated by tabs, and JSON objects. Whatever is not translated
keeps its bytes, line ends included. Nothing here reads files or stops at a bad line; a row says
what is wrong with it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal, Protocol

FormatName = Literal["lines", "tsv", "jsonl"]

_SUFFIXES: dict[str, FormatName] = {".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NOT_UTF_8 = "is not UTF-8"
_BREAKS = str.maketrans("\t\n\r", "   ")
"""Whatever would end a line or a column becomes a blank within a translation."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line: ``before`` and ``after`` are written around the translation of ``text``."""

    text: str
    before: bytes = b""
    after: bytes = b""
    problem: str | None = None
    """Why there is nothing to translate; ``text`` is then empty."""


class UnknownColumn(Exception):
    """The header of a file has no column of the name that was asked for."""


class Format(Protocol):
    """How lines are read and their translations written."""

    def header(self, line: bytes) -> bytes | None:
        """What becomes of a file's first line if it is a header; ``None`` if it is a row.

        Called with the first line before any other; raises ``UnknownColumn``.
        """
        ...

    def read(self, line: bytes) -> Row:
        """The row of a line, its end included."""
        ...

    def write(self, row: Row, translation: str) -> bytes:
        """The line of a row that has been translated."""
        ...


class Lines:
    """Every line is a text."""

    def header(self, line: bytes) -> bytes | None:
        return None

    def read(self, line: bytes) -> Row:
        body, end = _cut_end(line)
        try:
            return Row(body.decode("utf-8"), after=end)
        except UnicodeDecodeError:
            return Row("", after=end, problem=_NOT_UTF_8)

    def write(self, row: Row, translation: str) -> bytes:
        # A carriage return in the middle of a source's line comes back and ends nothing.
        if "\n" in translation:
            translation = translation.replace("\n", " ")
        return b"".join((row.before, translation.encode("utf-8"), row.after))


class Columns:
    """Columns separated by tabs, without quoting; a column by its number from one, or its name.

    The translation is a column at the end, or takes the place of its source. A name needs a file
    whose first line is a header.
    """

    def __init__(self, column: int | str, *, header: bool, into: str, replace: bool) -> None:
        self._column = column
        self._index = column - 1 if isinstance(column, int) else -1
        self._header = header or isinstance(column, str)
        self._into = into
        self._replace = replace

    def header(self, line: bytes) -> bytes | None:
        if not self._header:
            return None
        body, end = _cut_end(line)
        names = body.removeprefix(_BYTE_ORDER_MARK).decode("utf-8", "replace").split("\t")
        if isinstance(self._column, str):
            if self._column not in names:
                raise UnknownColumn(
                    f"there is no column {self._column!r}; the header has {', '.join(names)}"
                )
            self._index = names.index(self._column)
        return line if self._replace else b"".join((body, b"\t", self._into.encode(), end))

    def read(self, line: bytes) -> Row:
        body, end = _cut_end(line)
        columns = body.split(b"\t")
        before, after = body + b"\t", end
        if self._index >= len(columns):
            have = "1 column" if len(columns) == 1 else f"{len(columns)} columns"
            problem = f"has {have}; column {self._column} is to be translated"
            return Row("", body if self._replace else before, after, problem)
        if self._replace:
            before = b"".join(column + b"\t" for column in columns[: self._index])
            after = b"".join(b"\t" + column for column in columns[self._index + 1 :]) + end
        try:
            return Row(columns[self._index].decode("utf-8"), before, after)
        except UnicodeDecodeError:
            return Row("", before, after, _NOT_UTF_8)

    def write(self, row: Row, translation: str) -> bytes:
        return b"".join((row.before, translation.translate(_BREAKS).encode("utf-8"), row.after))


class Objects:
    """JSON objects; the translation of one field becomes another, or takes its place.

    An object keeps its bytes where a field is added; where one is replaced it is written anew.
    """

    def __init__(self, field: str, into: str) -> None:
        self._field = field
        self._into = into

    def header(self, line: bytes) -> bytes | None:
        return None

    def read(self, line: bytes) -> Row:
        body, end = _cut_end(line)
        if not body.strip():
            return Row("", body, end)
        try:
            found = json.loads(body.removeprefix(_BYTE_ORDER_MARK))
        except UnicodeDecodeError:
            return self._alone(end, _NOT_UTF_8)
        except (ValueError, RecursionError) as error:
            return self._alone(end, f"is not JSON: {error}")
        if not isinstance(found, dict):
            return self._alone(end, "is not a JSON object")
        before, after = self._around(body, found)
        text = found.get(self._field)
        if not isinstance(text, str):
            what = "is not text" if self._field in found else "is missing"
            return Row("", before, after + end, f"field {self._field!r} {what}")
        if not _is_unicode(text):
            return Row("", before, after + end, f"field {self._field!r} has a lone surrogate")
        return Row(text, before, after + end)

    def write(self, row: Row, translation: str) -> bytes:
        if not row.before.strip():
            return row.before + row.after
        written = json.dumps(translation, ensure_ascii=False).encode("utf-8")
        return b"".join((row.before, written, row.after))

    def _alone(self, end: bytes, problem: str) -> Row:
        before, after = self._around(b"{}", {})
        return Row("", before, after + end, problem)

    def _around(self, body: bytes, found: dict[str, Any]) -> tuple[bytes, bytes]:
        """The object's bytes before and after the translation."""
        name = json.dumps(self._into, ensure_ascii=False)
        if self._into not in found:
            content = body.rstrip().removesuffix(b"}")
            blank = body[len(body.rstrip()) :]
            comma = b", " if found else b""
            return b"".join((content.rstrip(), comma, f"{name}: ".encode())), b"}" + blank
        members = list(found)
        place = members.index(self._into)
        before = "".join(f"{_member(found, other)}, " for other in members[:place])
        after = "".join(f", {_member(found, other)}" for other in members[place + 1 :])
        return _encoded(f"{{{before}{name}: "), _encoded(f"{after}}}")


def guessed(*names: str) -> FormatName:
    """The format that the first of these names of files tells by its suffix; else ``lines``."""
    for name in names:
        for suffix, format_name in _SUFFIXES.items():
            if name.lower().removesuffix(".gz").endswith(suffix):
                return format_name
    return "lines"


def _cut_end(line: bytes) -> tuple[bytes, bytes]:
    if line.endswith(b"\r\n"):
        return line[:-2], b"\r\n"
    if line.endswith(b"\n"):
        return line[:-1], b"\n"
    return line, b""


def _member(found: dict[str, Any], name: str) -> str:
    """A member of an object; half of a surrogate pair stays an escape, for UTF-8 has none."""
    written = f"{json.dumps(name, ensure_ascii=False)}: "
    written += json.dumps(found[name], ensure_ascii=False)
    if _is_unicode(written):
        return written
    return f"{json.dumps(name)}: {json.dumps(found[name])}"


def _encoded(text: str) -> bytes:
    return text.encode("utf-8")


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
