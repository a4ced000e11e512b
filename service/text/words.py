"""Finds words in any language by regular expression, for word alignment and tag placement.

A word is a run of letters and digits. A punctuation mark, or the same one repeated, is a word of
its own. In scripts without blanks between words, each character is a word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import chain

from models.text import UNSPACED
from service.text.alignment import Span, overlapping

_CLINGING = (
    "".join(
        chr(code)
        for code in chain(range(0x300, 0x1F000), range(0xE0100, 0xE01F0))
        if unicodedata.category(chr(code)).startswith("M")
    )
    + "\u00ad\u200c\u200d\u2060\ufe0f\U0001f3fb-\U0001f3ff"
)
"""Accents, vowel signs, joiners, soft hyphens and skin tones: part of the preceding character."""

LETTER = rf"[^\W{UNSPACED}]"
"""Pattern of a letter or digit in scripts with blanks between words."""
INSIDE_WORD = re.compile(
    rf"(?<=[^\W{UNSPACED}])(?={LETTER})|(?<=[{_CLINGING}])(?={LETTER})|(?<=\w)(?=[{_CLINGING}])"
    rf"|(?<=[{_CLINGING}])(?=[{_CLINGING}])"
)
"""Matches between two characters of one word."""
BETWEEN_UNSPACED = re.compile(
    # Thai and Lao vowels before their consonant, and vowels and marks after it, do not stand alone.
    rf"(?<=[{UNSPACED}{_CLINGING}])(?<![\u0e40-\u0e44\u0ec0-\u0ec4])"
    rf"(?=[{UNSPACED}])(?![{_CLINGING}\u0e30\u0e32\u0e33\u0e45\u0e46\u0eb0\u0eb2\u0eb3])"
)
"""Matches between two characters of scripts without blanks where a word may end."""
_UNSPACED_CHARACTER = re.compile(f"[{UNSPACED}]")
_CONTRACTED = r"(?:s|t|m|d|ll|re|ve)(?!\w)"
_WORD = re.compile(
    rf"""
      [{UNSPACED}][{_CLINGING}]*
    | {LETTER}
      (?: {LETTER} | [{_CLINGING}]
        | (?<=\d)[.,](?=\d)
        | ['\u2019](?=[^\W\d_a-zA-Z\u00c0-\u024f])    # Cyrillic
        | ['\u2019](?={_CONTRACTED})                         # don't
      )*
      (?: (?<=[a-zA-Z\u00c0-\u024f])['\u2019](?=[a-zA-Z\u00c0-\u024f]) )?  # l' of l'homme
    | [\U0001f1e6-\U0001f1ff]{{2}}                      # flags
    | ([^\w\s])(?: \1 | \u200d[^\w\s] | [{_CLINGING}] )*
    """,
    re.VERBOSE,
)


def words(text: str, whole: Sequence[Span] = ()) -> tuple[Span, ...]:
    """Spans of the words and punctuation marks of a text, in order; they cover all but blanks.

    Words that overlap the same span of ``whole`` are merged.
    """
    found = [match.span() for match in _WORD.finditer(text)]
    for first, last in whole:
        inside = overlapping(found, first, last)
        if merged := found[inside]:
            found[inside] = [(merged[0][0], merged[-1][1])]
    return tuple(found)


def is_unspaced(character: str) -> bool:
    """Whether a character is of a script without blanks between words."""
    return _UNSPACED_CHARACTER.match(character) is not None


def is_punctuation(word: str) -> bool:
    """Whether nothing in ``word`` is a letter or a digit."""
    return not any(character.isalnum() for character in word)
