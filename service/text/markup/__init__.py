"""Removes tags and placeholders before translation and places them by word alignment after it."""

from __future__ import annotations

from service.text.markup.run import Cut as Cut
from service.text.markup.run import MarkedText as MarkedText
from service.text.markup.run import Run as Run
from service.text.markup.run import characters as characters
from service.text.markup.run import fragment as fragment
from service.text.markup.run import parse as parse
from service.text.markup.sentence import NO_FRAGMENT as NO_FRAGMENT
from service.text.markup.sentence import Fragment as Fragment
from service.text.markup.sentence import MarkedSentence as MarkedSentence
from service.text.markup.types import PLAIN as PLAIN
from service.text.markup.types import MalformedMarkup as MalformedMarkup
from service.text.markup.types import Markup as Markup
from service.text.markup.types import TooMuchMarkup as TooMuchMarkup
