"""Visual order of a line of mixed direction.

Implements the Unicode bidirectional algorithm (UAX 9) without explicit embeddings, isolates and
paired brackets: rules W1 to W7, N1, N2, I1, I2 and L2. HarfBuzz mirrors brackets.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

_FIRST_TO_LEFT = "\u0590"
"""First character of the scripts that run to the left."""


def is_right_to_left(text: str) -> bool:
    """Whether most letters of a text are of scripts that run to the left."""
    if not text or max(text) < _FIRST_TO_LEFT:
        return False
    kinds = Counter(map(unicodedata.bidirectional, text))
    return kinds["R"] + kinds["AL"] > kinds["L"]


def visual_runs(text: str, base: int) -> list[tuple[range, bool]]:
    """Ranges of characters from left to right, each with whether it is to be read to the left.

    ``base`` is 1 for a paragraph that runs to the left, else 0.
    """
    if not base and text and max(text) < _FIRST_TO_LEFT:
        return [(range(len(text)), False)]
    levels = _levels(text, base)
    runs: list[tuple[range, int]] = []
    for level, places in groupby(range(len(text)), key=levels.__getitem__):
        first, *others = places
        runs.append((range(first, first + 1 + len(others)), level))
    highest = max(levels, default=0)
    for level in range(highest, 0, -1):
        ordered: list[tuple[range, int]] = []
        for deep, group in groupby(runs, key=lambda run: run[1] >= level):
            found = list(group)
            ordered += reversed(found) if deep else found
        runs = ordered
    return [(places, level % 2 == 1) for places, level in runs]


def _levels(text: str, base: int) -> list[int]:
    kinds = _resolved(_weak([unicodedata.bidirectional(each) or "L" for each in text], base), base)
    levels = []
    for kind in kinds:
        if kind == "L":
            levels.append(base + base % 2)
        elif kind == "R":
            levels.append(base + 1 - base % 2)
        else:
            levels.append(2)
    return levels if base or any(kind != "L" for kind in kinds) else [0] * len(text)


def _weak(kinds: Sequence[str], base: int) -> list[str]:
    """Rules W1 to W7."""
    found = list(kinds)
    last, strong = "R" if base else "L", "R" if base else "L"
    for place, kind in enumerate(found):
        if kind == "NSM":
            found[place] = kind = last
        if kind in ("L", "R", "AL"):
            strong = kind
        elif kind == "EN" and strong == "AL":
            found[place] = "AN"
        last = kind
    found = ["R" if kind == "AL" else kind for kind in found]
    for place in range(1, len(found) - 1):
        before, kind, after = found[place - 1 : place + 2]
        if before == after and (
            (kind == "ES" and before == "EN") or (kind == "CS" and before in "ENAN")
        ):
            found[place] = before
    start = 0
    for kind, group in groupby(list(found)):
        end = start + len(list(group))
        if kind == "ET" and "EN" in (*found[max(0, start - 1) : start], *found[end : end + 1]):
            found[start:end] = ["EN"] * (end - start)
        start = end
    strong = "R" if base else "L"
    for place, kind in enumerate(found):
        if kind in ("L", "R"):
            strong = kind
        elif kind == "EN" and strong == "L":
            found[place] = "L"
        elif kind not in ("EN", "AN"):
            found[place] = "N"
    return found


def _resolved(kinds: Sequence[str], base: int) -> list[str]:
    """Rules N1 and N2: neutral characters take the direction of both neighbours, or the base."""
    found = list(kinds)
    outer = "R" if base else "L"
    start = 0
    for kind, group in groupby(list(kinds)):
        end = start + len(list(group))
        if kind == "N":
            before = _direction(kinds[start - 1]) if start else outer
            after = _direction(kinds[end]) if end < len(kinds) else outer
            found[start:end] = [before if before == after else outer] * (end - start)
        start = end
    return found


def _direction(kind: str) -> str:
    return "L" if kind == "L" else "R"
