from __future__ import annotations

from collections import Counter

import pytest

from models.text import numbers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Im Jahr 1935 und 1940.", ["1935", "1940"]),
        ("1,000 and 1.000 and 1\u202f000 and 1'000", ["1000"] * 4),
        ("10:30 h, 3.5 %", ["1030", "35"]),
        ("no figure", []),
    ],
)
def test_separators_within_a_number_are_left_out(text: str, expected: list[str]) -> None:
    assert numbers(text) == Counter(expected)
