"""JSON Schema of glossary entries in TSV and CSV.

It cannot express that source terms are unique, nor the limit of a term in bytes. It omits that CSV
may have the dictionary's own languages in a third and fourth column.
"""

from __future__ import annotations

from typing import Any

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

_PATTERNS = {
    "tsv": _lines(rf"{_BARE}\t{_BARE}"),
    "csv": _lines(f"{_COLUMN},{_COLUMN}"),
}

ENTRIES: dict[str, Any] = {
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
"""Schema to merge into that of an object with ``entries`` and ``entries_format``."""
