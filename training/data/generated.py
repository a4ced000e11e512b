"""Toy corpora of random digits: copied, or reversed with X for every second occurrence.

Copy: the target repeats the digits. Reverse: every second occurrence of a digit (its 2nd, 4th, …)
becomes ``X``, and the result is reversed; the network has to count, copy and attend in the other
direction. A quarter of the training sequences has any length up to ten, the other sequences have
ten digits. Fewer would not teach short input, because short sequences fill few batches, and each
batch is one step.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Literal

LENGTH = 10

Generator = Literal["copy", "reverse", "reverse-any-length"]


def generate(generator: Generator, name: str, pairs: int) -> Iterator[tuple[str, str]]:
    """``pairs`` pairs, seeded by ``name``."""
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
