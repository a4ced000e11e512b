"""Variants of a graph on a CPU, and the choice among them by the number of rows of a product.

All variants compute the same numbers, at speeds that differ between processors: with few rows, one
thread can be faster than several that wait for each other, and where AMX multiplies signed weights,
unsigned ones have kernels that read less for one row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

NEAR = 1.05
"""A variant that takes at most so many times as long as the fastest counts as fast."""


@dataclass(frozen=True, slots=True)
class Variant:
    threads: int
    """Threads of one run; 0 is one for each core."""
    unsigned: bool = False
    """Whether int8 weights are shifted to unsigned numbers, which have other kernels on x86-64."""

    def __str__(self) -> str:
        threads = f"{self.threads or 'all'} thread{'' if self.threads == 1 else 's'}"
        return f"{threads}, unsigned" if self.unsigned else threads


@dataclass(frozen=True, slots=True)
class Choice:
    """The variant that runs, by the number of rows."""

    many: Variant
    few: tuple[tuple[int, Variant], ...] = ()
    """Variants for at most so many rows, in ascending order."""

    def of(self, rows: int) -> Variant:
        return next((variant for most, variant in self.few if rows <= most), self.many)

    @property
    def variants(self) -> set[Variant]:
        return {self.many, *(variant for _, variant in self.few)}

    def __str__(self) -> str:
        few = [f"{variant} up to {most} rows" for most, variant in self.few]
        return "; ".join([*few, f"{self.many} beyond" if few else str(self.many)])


def candidates(usual: Variant, cores: int, *, kernels: bool) -> list[Variant]:
    """``usual`` and the variants to compare it with, those that gain most somewhere first.

    With ``kernels``, unsigned weights are among them.
    """
    most = usual.threads or cores
    fewer = [threads for threads in (1, most // 2, most // 4) if 0 < threads < most]
    threads = [replace(usual, threads=each) for each in dict.fromkeys(fewer)]
    others = [replace(usual, unsigned=True)] if kernels else []
    both = [replace(each, unsigned=True) for each in threads] if kernels else []
    return [usual, *others, *threads[:1], *both[:1], *threads[1:], *both[1:]]


def fastest(usual: Variant, seconds: Mapping[int, Mapping[Variant, float]]) -> Choice:
    """The choice by measured times of steps, by rows and variant.

    Of variants that are ``NEAR`` the fastest, ``usual`` is preferred, then the one for fewer rows,
    because each variant keeps weights in memory. Between two measured numbers of rows, the change
    is at their geometric mean; beyond the last, its variant stays.
    """
    chosen: list[tuple[int, Variant]] = []
    for rows in sorted(seconds):
        best = min(seconds[rows].values())
        near = {variant for variant, taken in seconds[rows].items() if taken <= NEAR * best}
        preferred = [usual, *(variant for _, variant in reversed(chosen))]
        fast = min(seconds[rows], key=lambda variant: seconds[rows][variant])
        chosen.append((rows, next((each for each in preferred if each in near), fast)))
    return _join(chosen) if chosen else Choice(usual)


def _join(chosen: Iterable[tuple[int, Variant]]) -> Choice:
    rows = list(chosen)
    changes = [
        (math.isqrt(here * there), variant)
        for (here, variant), (there, following) in pairwise(rows)
        if variant != following
    ]
    return Choice(rows[-1][1], tuple(changes))
