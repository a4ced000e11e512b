"""Lines of a text, where all of them are looked at, and so only so many are read."""

from __future__ import annotations

import re

from service.documents.types import BrokenDocument

MOST_LINES = 100_000
"""Each is a few objects while a file is read: a file of nothing but ends of lines would take
hundreds of times its own size."""
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")


def lines_of(text: str) -> list[tuple[int, str]]:
    """Where each line starts, and the line with its end; raises ``BrokenDocument``."""
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
