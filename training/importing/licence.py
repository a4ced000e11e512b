"""Reads the licence from a checkpoint's model card."""

from __future__ import annotations

import re
from pathlib import Path

_CARDS = ("README.md", "model_card.md")
_HEADER = re.compile(r"\A---\s*\n(.*?)\n---\s*\n", re.DOTALL)
_LICENCE = re.compile(r"^license:[ \t]*(?:\n[ \t]*-[ \t]*)?[\"']?([\w.+-]+)", re.MULTILINE)


def licence_of(directory: Path) -> str | None:
    """The licence in the card's header, such as ``cc-by-4.0``; ``None`` if it has none."""
    for name in _CARDS:
        try:
            card = (directory / name).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            continue
        header = _HEADER.match(card.replace("\r\n", "\n"))
        found = _LICENCE.search(header[1]) if header else None
        if found:
            return found[1]
    return None
