"""Corpora that are made rather than found: the toy problem.

A sequence of ten digits; every second occurrence of a digit (its 2nd, 4th, …) becomes ``X``; the
result is reversed. The network has to count, to copy and to look in the other direction.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

LENGTH = 10


def generate(generator: str, name: str, pairs: int) -> Iterator[tuple[str, str]]:
    """``pairs`` pairs; the same for the same name, others for another."""
    if generator != "reverse":
        raise ValueError(f"no generator is called {generator!r}")
    rng = random.Random(name)
    for _ in range(pairs):
        digits = [rng.choice("0123456789") for _ in range(LENGTH)]
        yield " ".join(digits), " ".join(reverse(digits))


def reverse(digits: list[str]) -> list[str]:
    """``0 1 5 9 0 3 5 2 5`` becomes ``5 2 X 3 X 9 5 1 0``."""
    seen: Counter[str] = Counter()
    kept: list[str] = []
    for digit in digits:
        seen[digit] += 1
        kept.append("X" if seen[digit] % 2 == 0 else digit)
    return kept[::-1]
