"""Removes tags and placeholders before translation and places them by word alignment after it."""

from __future__ import annotations

from service.translation.markup.run import Cut, MarkedText, Run, parse
from service.translation.markup.sentence import MarkedSentence
from service.translation.markup.types import PLAIN, MalformedMarkup, Markup, TooMuchMarkup

__all__ = [
    "PLAIN",
    "Cut",
    "MalformedMarkup",
    "MarkedSentence",
    "MarkedText",
    "Markup",
    "Run",
    "TooMuchMarkup",
    "parse",
]
