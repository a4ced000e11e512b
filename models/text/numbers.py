"""Extracts the numbers of a text."""

from __future__ import annotations

import re
from collections import Counter

_NUMBER = re.compile(r"\d+(?:[.,:'\u2019\u202f ]\d+)*")


def numbers(text: str) -> Counter[str]:
    """Count of each number. Separators within a number are left out: ``1,000`` and ``1.000`` are
    both ``1000``."""
    return Counter("".join(filter(str.isdecimal, found)) for found in _NUMBER.findall(text))
