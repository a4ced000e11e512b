"""Removes tags and placeholders before translation and places them by word alignment after it."""

from __future__ import annotations

from service.translation.markup.run import Cut, MarkedText, Run, fragment, parse
from service.translation.markup.sentence import NO_FRAGMENT, Fragment, MarkedSentence
from service.translation.markup.types import PLAIN, MalformedMarkup, Markup, TooMuchMarkup

__all__ = [
    "NO_FRAGMENT",
    "PLAIN",
    "Cut",
    "Fragment",
    "MalformedMarkup",
    "MarkedSentence",
    "MarkedText",
    "Markup",
    "Run",
    "TooMuchMarkup",
    "fragment",
    "parse",
]
