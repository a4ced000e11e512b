"""Text functions that training and the service share: numbers, and repetition loops."""

from __future__ import annotations

import re
from collections import Counter

_NUMBER = re.compile(r"\d+(?:[.,:'\u2019\u202f ]\d+)*")
_LOOP = re.compile(
    r"(?i)(?:^|\s)(\S+(?:\s\S+){0,7}?)(?:\s\1){2,}(?=\s|\W*$)"
    r"|([^\W\d_]{2,8}?)\2{2,}|(\S)\3{5,}"
)
"""Up to eight words three times in a row, two to eight letters three times, or one character six
times."""


def numbers(text: str) -> Counter[str]:
    """Count of each number. Separators within a number are left out: ``1,000`` and ``1.000`` are
    both ``1000``."""
    return Counter("".join(filter(str.isdecimal, found)) for found in _NUMBER.findall(text))


def repeats_itself(text: str) -> bool:
    """Whether a text has a repetition loop, which translation models fall into."""
    return _LOOP.search(text) is not None
