"""Parser, renderer and validator of glossary entries as TSV or CSV. Independent of the store.

The rules are DeepL's: source terms are unique, and a term is one line without outer blanks.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from models.bundle.languages import canonical
from service.state.errors import InvalidGlossary, shortened
from service.text.types import LanguagePair, Term

EntriesFormat = Literal["tsv", "csv"]

LONGEST_TERM_BYTES = 1024
_BYTE_ORDER_MARK = "\ufeff"
_NO_TERM = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")
"""Unicode categories Cc, Cs, Zl and Zp: controls, surrogates, line and paragraph separators."""


def parse(text: str, entries_format: EntriesFormat, pair: LanguagePair) -> tuple[Term, ...]:
    """Read entries; raises ``InvalidGlossary`` with the number of the line.

    Empty lines are skipped. CSV is quoted as in RFC 4180. It may name the languages of both terms
    in a third and fourth column, which must match ``pair``.
    """
    if entries_format == "tsv":
        return parse_tsv(text)
    return _read(_csv_lines(text.removeprefix(_BYTE_ORDER_MARK), pair))


def parse_tsv(text: str) -> tuple[Term, ...]:
    """``parse`` of TSV, which names no languages."""
    return _read(_tsv_lines(text.removeprefix(_BYTE_ORDER_MARK)))


def _read(lines: Iterable[tuple[int, tuple[str, str]]]) -> tuple[Term, ...]:
    terms: list[Term] = []
    first_line: dict[str, int] = {}
    for number, (source, target) in lines:
        term = Term(source, target)
        problem = _problem(term)
        if problem is not None:
            raise InvalidGlossary(f"line {number}: {problem}")
        before = first_line.setdefault(source, number)
        if before != number:
            raise InvalidGlossary(f"line {number}: {_quoted(source)} is in line {before} already")
        terms.append(term)
    return tuple(terms)


def render(terms: Iterable[Term], entries_format: EntriesFormat) -> Iterator[str]:
    """The inverse of ``parse``: one line for each entry, without line ends."""
    if entries_format == "tsv":
        return (f"{term.source}\t{term.target}" for term in terms)
    row = csv.writer(_Returned(), lineterminator="\n").writerow
    return (row((term.source, term.target)).removesuffix("\n") for term in terms)


class _Returned:
    """File whose ``write`` returns the text, and which keeps none."""

    def write(self, text: str) -> str:
        return text


def validate(terms: Iterable[Term]) -> tuple[Term, ...]:
    """The terms unchanged; raises ``InvalidGlossary`` with the number of an invalid entry."""
    kept: dict[str, Term] = {}
    for number, term in enumerate(terms, start=1):
        problem = _problem(term)
        if problem is None and term.source in kept:
            problem = f"{_quoted(term.source)} is there twice"
        if problem is not None:
            raise InvalidGlossary(f"entry {number}: {problem}")
        kept[term.source] = term
    return tuple(kept.values())


def _tsv_lines(text: str) -> Iterator[tuple[int, tuple[str, str]]]:
    # splitlines would also split at Unicode's line ends, which have to be reported as invalid.
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.removesuffix("\r")
        if not line:
            continue
        columns = line.split("\t")
        if len(columns) != 2:
            raise InvalidGlossary(
                f"line {number}: has {len(columns) - 1} tabs; write source, one tab, target"
            )
        yield number, (columns[0], columns[1])


def _csv_lines(text: str, pair: LanguagePair) -> Iterator[tuple[int, tuple[str, str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    while True:
        try:
            columns = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InvalidGlossary(f"line {reader.line_num}: is not CSV: {error}") from error
        number = reader.line_num
        if not columns:
            continue
        if len(columns) not in (2, 4):
            raise InvalidGlossary(
                f"line {number}: has {len(columns)} columns; write source and target, or source, "
                "target and the language of each"
            )
        if len(columns) == 4 and not _says(columns[2], columns[3], pair):
            raise InvalidGlossary(
                f"line {number}: is from {_quoted(columns[2])} to {_quoted(columns[3])}; this "
                f"dictionary is from {pair.source} to {pair.target}"
            )
        yield number, (columns[0], columns[1])


def _says(source: str, target: str, pair: LanguagePair) -> bool:
    try:
        return LanguagePair(canonical(source), canonical(target)) == pair
    except ValueError:
        return False


def _problem(term: Term) -> str | None:
    """Why an entry is invalid; ``None`` if it is valid."""
    for side, text in (("source", term.source), ("target", term.target)):
        if not text:
            return f"the {side} term is empty"
        if _NO_TERM.search(text):
            return f"the {side} term has a control character, a tab or a line end"
        if text != text.strip():
            return f"the {side} term {_quoted(text)} has blanks around it"
        if len(text.encode("utf-8")) > LONGEST_TERM_BYTES:
            return f"the {side} term has more than {LONGEST_TERM_BYTES} bytes in UTF-8"
    return None


def _quoted(text: str) -> str:
    return f'"{shortened(text)}"'


_CONTROLS = r"\u0000-\u001f\u007f-\u009f\u2028\u2029"
_LINE_END = r"\r?\n"


def _term(first: str, inner: str, last: str) -> str:
    """Pattern of a term without surrounding blanks, built from character classes."""
    return f"{first}(?:{inner}*{last})?"


def _lines(line: str) -> str:
    """Pattern of at least one ``line``; empty lines are skipped."""
    return rf"^\ufeff?(?:{_LINE_END})*{line}(?:(?:{_LINE_END})+{line})*(?:{_LINE_END})*$"


_BARE = _term(rf"[^\s{_CONTROLS}]", rf"[^{_CONTROLS}]", rf"[^\s{_CONTROLS}]")
_CELL = _term(rf'[^\s",{_CONTROLS}]', rf"[^,{_CONTROLS}]", rf"[^\s,{_CONTROLS}]")
_QUOTED_END = rf'(?:[^\s"{_CONTROLS}]|"")'
_QUOTED = f'"{_term(_QUOTED_END, f"""(?:[^"{_CONTROLS}]|"")""", _QUOTED_END)}"'
_COLUMN = f"(?:{_CELL}|{_QUOTED})"

TERM_PATTERN = f"^{_BARE}$"
TSV_PATTERN = _lines(rf"{_BARE}\t{_BARE}")
_PATTERNS = {
    "tsv": TSV_PATTERN,
    "csv": _lines(f"{_COLUMN},{_COLUMN}"),
}

ENTRIES_SCHEMA: dict[str, Any] = {
    "allOf": [
        {
            "anyOf": [
                {
                    "properties": {
                        "entries_format": {"const": entries_format},
                        "entries": {"type": "string", "pattern": pattern},
                    }
                }
                for entries_format, pattern in _PATTERNS.items()
            ]
        }
    ],
}
"""JSON Schema to merge into that of an object with ``entries`` and ``entries_format``.

It cannot express that source terms are unique, nor the limit of a term in bytes. It omits that CSV
may have the dictionary's own languages in a third and fourth column.
"""
