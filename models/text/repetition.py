"""Detects repetition loops, which translation models fall into."""

from __future__ import annotations

import re

_LOOP = re.compile(
    r"(?i)(?:^|\s)(\S+(?:\s\S+){0,7}?)(?:\s\1){2,}(?=\s|\W*$)"
    r"|([^\W\d_]{2,8}?)\2{2,}|(\S)\3{5,}"
)
"""Up to eight words three times in a row, two to eight letters three times, or one character six
times."""


def repeats_itself(text: str) -> bool:
    return _LOOP.search(text) is not None
