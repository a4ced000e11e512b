"""Row formats of bulk files: plain lines, tab-separated columns and JSON objects.

A row is a text to translate and the bytes around its translation. Bytes that are not translated
are kept, line ends included. A bad line does not raise; its row has a ``problem``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal, Protocol

FormatName = Literal["lines", "tsv", "jsonl"]

_SUFFIXES: dict[str, FormatName] = {".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_MARK = "\ufeff"
_BYTE_ORDER_MARK = _MARK.encode()
_NOT_UTF_8 = "the text is not UTF-8"
_BREAKS = str.maketrans("\t\n\r", "   ")
"""Characters of a translation that would end a line or a column become blanks."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line: ``before`` and ``after`` are written around the translation of ``text``."""

    text: str
    before: bytes = b""
    after: bytes = b""
    problem: str | None = None
    """Reason why the line cannot be translated; ``text`` is then empty."""


class UnknownColumn(Exception):
    """The header of the file lacks the requested column."""


class Format(Protocol):
    """Parser of lines and writer of translated lines."""

    def header(self, line: bytes) -> bytes | None:
        """The output header for a file's first line; ``None`` if that line is a row.

        Must be called first, with the first line. Raises ``UnknownColumn``.
        """
        ...

    def read(self, line: bytes) -> Row:
        """Parse a line, given with its line end."""
        ...

    def write(self, row: Row, translation: str) -> bytes:
        """The output line of a translated row."""
        ...


class Lines:
    """Plain lines: every line is a text."""

    def header(self, line: bytes) -> bytes | None:
        return None

    def read(self, line: bytes) -> Row:
        body, end = _cut_end(line)
        try:
            return Row(body.decode("utf-8"), after=end)
        except UnicodeDecodeError:
            return Row("", after=end, problem=_NOT_UTF_8)

    def write(self, row: Row, translation: str) -> bytes:
        # A carriage return inside a line is kept, because it does not end the line.
        if "\n" in translation:
            translation = translation.replace("\n", " ")
        return b"".join((row.before, translation.encode("utf-8"), row.after))


class Columns:
    """Tab-separated columns without quoting; ``column`` is a number from 1, or a name.

    The translation is appended as the last column, or replaces its source. A name requires a
    header line.
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
            problem = f"the line has {have}; column {self._column} is to be translated"
            return Row("", body if self._replace else before, after, problem)
        if self._replace:
            before = b"".join(column + b"\t" for column in columns[: self._index])
            after = b"".join(b"\t" + column for column in columns[self._index + 1 :]) + end
        try:
            text = columns[self._index].decode("utf-8")
            # The mark stays before the line.
            return Row(text if self._replace else text.removeprefix(_MARK), before, after)
        except UnicodeDecodeError:
            return Row("", before, after, _NOT_UTF_8)

    def write(self, row: Row, translation: str) -> bytes:
        return b"".join((row.before, translation.translate(_BREAKS).encode("utf-8"), row.after))


class Objects:
    """JSON objects; the translation of one field is added as another, or replaces it.

    An object keeps its bytes if a field is added. It is serialised again if one is replaced.
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
            return Row("", body, end, _NOT_UTF_8)
        except (ValueError, RecursionError) as error:
            return Row("", body, end, f"the line is not JSON: {error}")
        if not isinstance(found, dict):
            return Row("", body, end, "the line is not a JSON object")
        before, after = self._around(body, found)
        text = found.get(self._field)
        if not isinstance(text, str):
            what = "is not text" if self._field in found else "is missing"
            return Row("", before, after + end, f"field {self._field!r} {what}")
        if not _is_unicode(text):
            return Row("", before, after + end, f"field {self._field!r} has a lone surrogate")
        return Row(text, before, after + end)

    def write(self, row: Row, translation: str) -> bytes:
        # The object that is written ends after the translation; other lines stay as they are.
        if not row.after.startswith((b"}", b",")):
            return row.before + row.after
        written = json.dumps(translation, ensure_ascii=False).encode("utf-8")
        return b"".join((row.before, written, row.after))

    def _around(self, body: bytes, found: dict[str, Any]) -> tuple[bytes, bytes]:
        """Bytes of the output object before and after the translation."""
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
        mark = _MARK if body.startswith(_BYTE_ORDER_MARK) else ""
        return _encoded(f"{mark}{{{before}{name}: "), _encoded(f"{after}}}")


def guessed(*names: str) -> FormatName:
    """The format by the suffix of the first file name with a known one; else ``lines``."""
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
    """A serialised member. A lone surrogate stays escaped, because UTF-8 cannot encode it."""
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
