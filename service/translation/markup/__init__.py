"""Removes tags and placeholders before translation and places them by word alignment after it."""

from __future__ import annotations

from service.translation.markup.run import Cut as Cut
from service.translation.markup.run import MarkedText as MarkedText
from service.translation.markup.run import Run as Run
from service.translation.markup.run import fragment as fragment
from service.translation.markup.run import parse as parse
from service.translation.markup.sentence import NO_FRAGMENT as NO_FRAGMENT
from service.translation.markup.sentence import Fragment as Fragment
from service.translation.markup.sentence import MarkedSentence as MarkedSentence
from service.translation.markup.types import PLAIN as PLAIN
from service.translation.markup.types import MalformedMarkup as MalformedMarkup
from service.translation.markup.types import Markup as Markup
from service.translation.markup.types import TooMuchMarkup as TooMuchMarkup
