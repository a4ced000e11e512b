"""Capital letters at the beginning of headings, cells and labels.

Models write such fragments as words inside a sentence: *Vertraulich* becomes *confidential*.
"""

from __future__ import annotations

import re

_BEFORE = re.compile(r"(?:<(?![wx] )[^<>]*>|\d+[.)]\s|[^\w<%{$@#&'\u2019])*")
"""Tags, the number of an item, and signs. Neither placeholders nor the stand-ins of documents."""
_WORDS = re.compile(r"\w+")
_WORD = re.compile(r"[^\W\d_]\w*")


def begins_with_capital(sentence: str) -> bool:
    """Whether the first word of a sentence, with its markup, begins with a capital letter."""
    word = _first_word(sentence)
    return word is not None and word[0][0].isupper()


def lost_capital(source: str, target: str) -> int | None:
    """The offset of the small letter with which ``target`` begins; ``None`` without one.

    ``None`` also for a word with an inner capital, such as *iPhone*, and for one of ``source``.
    """
    word = _first_word(target)
    if word is None or not word[0].islower():
        return None
    capital = word[0][0].title()
    # A Georgian letter has no other at the beginning of a word, and that of ß is two letters.
    if capital == word[0][0] or len(capital) > 1:
        return None
    return None if word[0] in _WORDS.findall(source) else word.start()


def _first_word(text: str) -> re.Match[str] | None:
    before = _BEFORE.match(text)
    return _WORD.match(text, before.end() if before else 0)
