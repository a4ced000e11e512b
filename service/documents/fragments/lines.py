"""Splits a text into lines with offsets, up to a maximum number of lines."""

from __future__ import annotations

import re

from service.documents.types import BrokenDocument

MOST_LINES = 100_000
"""Each line is several Python objects: a file of empty lines takes hundreds of times its size."""
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")


def lines_of(text: str) -> list[tuple[int, str]]:
    """Offset of each line, and the line with its line end; raises ``BrokenDocument``."""
    lines: list[tuple[int, str]] = []
    for found in _LINE.finditer(text):
        if found[0]:
            lines.append((found.start(), found[0]))
        if len(lines) > MOST_LINES:
            raise BrokenDocument(
                f"the file has more than {MOST_LINES} lines, which is as many as are read: send "
                "it in parts"
            )
    return lines
