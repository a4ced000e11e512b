"""What the entries of a glossary look like, in JSON Schema.

Not all of it can be said there: that source terms are unique, and how many bytes a term may have.
Not said is that CSV may have the dictionary's own languages in a third and fourth column.
"""

from __future__ import annotations

from typing import Any

_CONTROLS = r"\u0000-\u001f\u007f-\u009f\u2028\u2029"
_LINE_END = r"\r?\n"


def _term(first: str, inner: str, last: str) -> str:
    """A term without blanks around it, of classes of characters."""
    return f"{first}(?:{inner}*{last})?"


def _lines(line: str) -> str:
    """At least one line; empty ones are skipped."""
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
"""Beside the properties of an object that has ``entries`` and ``entries_format``."""
