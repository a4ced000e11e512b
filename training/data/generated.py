"""Corpora that are made rather than found: the toy problems.

To copy is to copy ten digits. To reverse takes more: every second occurrence of a digit (its 2nd,
4th, …) becomes ``X``; the result is reversed. The network has to count, to copy and to look in the
other direction. To train on, a quarter of the sequences is of any length up to ten, so that nobody
who asks for nine digits is disappointed: short ones share few batches, and each batch is one step.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Literal

LENGTH = 10

Generator = Literal["copy", "reverse", "reverse-any-length"]


def generate(generator: Generator, name: str, pairs: int) -> Iterator[tuple[str, str]]:
    """``pairs`` pairs; the same for the same name, others for another."""
    rng = random.Random(name)
    for _ in range(pairs):
        any_length = generator == "reverse-any-length" and rng.random() < 0.25
        length = rng.randint(1, LENGTH) if any_length else LENGTH
        digits = [rng.choice("0123456789") for _ in range(length)]
        made = digits if generator == "copy" else reverse(digits)
        yield " ".join(digits), " ".join(made)


def reverse(digits: list[str]) -> list[str]:
    """``0 1 5 9 0 3 5 2 5`` becomes ``5 2 X 3 X 9 5 1 0``."""
    seen: Counter[str] = Counter()
    kept: list[str] = []
    for digit in digits:
        seen[digit] += 1
        kept.append("X" if seen[digit] % 2 == 0 else digit)
    return kept[::-1]
