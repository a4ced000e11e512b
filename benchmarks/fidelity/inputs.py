"""Reads the source texts of the fidelity benchmark from ``inputs.de.json``, ``inputs.en.json``.

A file has lists of texts by kind. ``⟦…⟧`` marks a span that the translation must keep unchanged.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

LANGUAGES = ("de", "en")

_SPAN = re.compile("⟦(.*?)⟧", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Input:
    """A source text, and the parts of it that must not change."""

    kind: str
    text: str
    spans: tuple[str, ...] = ()


def inputs(language: str) -> list[Input]:
    """The inputs of a source language."""
    path = Path(__file__).with_name(f"inputs.{language}.json")
    kinds = json.loads(path.read_text(encoding="utf-8"))
    return [parse(kind, text) for kind, texts in kinds.items() for text in texts]


def parse(kind: str, text: str) -> Input:
    """A text without the marks of its spans."""
    return Input(kind, _SPAN.sub(r"\1", text), tuple(_SPAN.findall(text)))
