"""Compares answers with expected ones that leave out what a test does not decide.

``…`` in an expected answer matches any part of a text, all further items of a list, or, as a field
name, all other fields. Decimal numbers may differ by rounding.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

ANYTHING = "…"
TOLERANCE = 0.05
"""Relative, since processors round differently."""
SMALLEST = 0.005
"""Absolute, for numbers near 0."""


def fits(said: Any, expected: Any) -> bool:
    """Whether an answer matches the expected one."""
    match expected:
        case str():
            if ANYTHING not in expected:
                return bool(said == expected)
            parts = map(re.escape, expected.split(ANYTHING))
            anything = expected == ANYTHING
            return anything or bool(re.fullmatch(".*".join(parts), str(said), re.DOTALL))
        case dict():
            if not isinstance(said, dict):
                return False
            named = {name: value for name, value in expected.items() if name != ANYTHING}
            complete = ANYTHING in expected or set(said) == set(named)
            return complete and all(n in said and fits(said[n], v) for n, v in named.items())
        case [*some, last] if last == ANYTHING:
            return isinstance(said, list) and len(said) >= len(some) and _all_fit(said, some)
        case list():
            return (
                isinstance(said, list) and len(said) == len(expected) and _all_fit(said, expected)
            )
        case float():
            number = isinstance(said, int | float) and not isinstance(said, bool)
            return number and abs(said - expected) <= TOLERANCE * abs(expected) + SMALLEST
        case _:
            return type(said) is type(expected) and bool(said == expected)


def _all_fit(said: Sequence[Any], expected: Sequence[Any]) -> bool:
    return all(fits(*each) for each in zip(said, expected, strict=False))
