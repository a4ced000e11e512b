"""Reads and writes tables of comma-separated values (.csv). Only cells with words change.

If the first line names a column of the source and one of the target language, empty cells of the
latter get the translations of the former, and all other cells are kept.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from service.documents.containers.encoding import decode
from service.documents.containers.messages import Entry, MessagesDocument
from service.documents.fragments.icu import icu_message
from service.documents.types import UNKNOWN, BrokenDocument, Document, Languages

_MEDIA_TYPE = "text/csv"
_DELIMITERS = ",;\t|"
_STATED = re.compile(r"sep=(.)(?:\r\n|[\r\n]|\Z)")
"""First line with the delimiter, as Excel writes and reads it."""
_LINES_LOOKED_AT = 50
_MOST_CELLS = 1_000_000
_FORMULA = re.compile(r"\s*(?:[=@]|[+-]\w+\()")
_IDENTIFIER = re.compile(r"(?:[a-z][\w.:-]*)?", re.ASCII)
_NAMES = (("source", "original"), ("target", "translation"))
"""Names of the columns of a table of translations, beside codes of languages."""


@dataclass(frozen=True, slots=True)
class _Cell:
    start: int
    end: int
    value: str
    quoted: bool


def open_csv(content: bytes, languages: Languages = UNKNOWN) -> Document:
    """Open a table; raises ``BrokenDocument``. The first lines show the delimiter.

    A first line of identifiers, such as ``name`` and ``unit_price``, is a header and kept.
    """
    file = decode(content, languages.source)
    entries = (entry for entry in _entries(file.text, languages) if entry.texts)
    return MessagesDocument(file, _MEDIA_TYPE, entries)


def _entries(text: str, languages: Languages) -> Iterator[Entry]:
    stated = _STATED.match(text)
    delimiter = stated[1] if stated else _delimiter(text)
    rows = _rows(text, stated.end() if stated else 0, delimiter)
    header = next(rows, [])
    names = [cell.value.strip() for cell in header]
    columns = _columns(names, languages)
    if columns is None and not all(map(_IDENTIFIER.fullmatch, names)):
        yield from (_entry(cell, cell, delimiter) for cell in header)
    for row in rows:
        if columns is None:
            yield from (_entry(cell, cell, delimiter) for cell in row)
        elif len(row) > max(columns):
            source, target = (row[column] for column in columns)
            if not target.value.strip():
                yield _entry(source, target, delimiter)


def _entry(source: _Cell, target: _Cell, delimiter: str) -> Entry:
    value = "" if _FORMULA.match(source.value) else source.value
    written = partial(_written, target.quoted, delimiter)
    return Entry(target.start, target.end, icu_message(value), written, target.value)


def _written(quoted: bool, delimiter: str, value: str) -> str:
    special = any(character in f'{delimiter}"\r\n' for character in value)
    if quoted or special or value != value.strip():
        return '"' + value.replace('"', '""') + '"'
    return value


def _columns(names: Sequence[str], languages: Languages) -> tuple[int, int] | None:
    """Columns of source and target by their names, which are codes of languages or ``_NAMES``."""
    found: list[int] = []
    for wanted, language in zip(_NAMES, (languages.source, languages.target), strict=True):
        column = next(
            (
                number
                for number, name in enumerate(names)
                if name.lower() in wanted or (language and _primary(name) == _primary(language))
            ),
            None,
        )
        if column is None or column in found:
            return None
        found.append(column)
    return found[0], found[1]


def _primary(tag: str) -> str:
    return tag.replace("_", "-").partition("-")[0].lower()


def _delimiter(text: str) -> str:
    """The character that divides most of the first lines into equally many cells."""

    def evenness(delimiter: str) -> tuple[int, int]:
        first = islice(_rows(text, 0, delimiter), _LINES_LOOKED_AT)
        ((cells, lines),) = Counter(map(len, first)).most_common(1) or [(1, 0)]
        return (lines, cells) if cells > 1 else (0, 0)

    return max(_DELIMITERS, key=evenness)


def _rows(text: str, start: int, delimiter: str) -> Iterator[list[_Cell]]:
    escaped = re.escape(delimiter)
    cell = re.compile(
        rf'(?:"(?P<quoted>(?:[^"]++|"")*+)"(?={escaped}|[\r\n]|\Z)|(?P<plain>[^{escaped}\r\n]*+))'
        rf"(?P<end>{escaped}|\r\n|[\r\n]|\Z)"
    )
    row: list[_Cell] = []
    count = 0
    while start < len(text) or row:
        found = cell.match(text, start)
        assert found is not None
        count += 1
        if count > _MOST_CELLS:
            raise BrokenDocument(
                f"the table has more than {_MOST_CELLS} cells, the limit: send it in parts"
            )
        quoted = found["quoted"] is not None
        value = found["quoted"].replace('""', '"') if quoted else found["plain"]
        row.append(_Cell(found.start(), found.start("end"), value, quoted))
        start = found.end()
        if found["end"] != delimiter:
            yield row
            row = []
