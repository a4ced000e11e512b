"""Measures the variants of a decode step on this machine, within a second."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Protocol

import numpy as np

from service.runtime.backend import EMPTY_ROW, Backend, EncodeBatch, IntArray, StepBatch
from service.runtime.variants import Choice, Variant

SENTENCES = (1, 4, 16)
_SOURCE_LENGTH = 25
_SLOWER = 3
"""A graph may take this many times as long to open while other graphs are open."""
_STEPS = 3
"""Steps of a variant in a round. The first runs on cold caches, and is dropped if others follow."""
_SHORT = 5e-3
"""Seconds of a first step above which no further one follows: cold caches hardly matter."""
_HOPELESS = 1.5
"""A variant this many times as slow as the fastest is not measured in further rounds."""


@dataclass(frozen=True, slots=True)
class TimeBudget:
    """Seconds for opening graphs and for steps; further variants are left out."""

    opening: float = 0.4
    steps: float = 0.3
    rounds: int = 20
    clock: Callable[[], float] = field(default=time.perf_counter)


GENEROUS = TimeBudget(opening=600, steps=20, rounds=100)


class Measurable(Backend, Protocol):
    """A backend whose steps can run in any variant."""

    @property
    def opening_seconds(self) -> float:
        """How long the graph took that is open."""

    def use(self, choice: Choice) -> None:
        """Run the following steps by ``choice``; opens graphs that are not open yet."""


def measure(
    backend: Measurable,
    beam: int,
    token: int,
    variants: Sequence[Variant],
    budget: TimeBudget | None = None,
) -> dict[int, Mapping[Variant, float]]:
    """Seconds of a step in each variant, by rows: the mean of the middle half, in turns.

    Sentences of the given ``token`` are decoded. The first variant is open already. Others that
    would not open within the budget are left out; without any, nothing is measured. The backend
    holds no sentence that is needed. Blocks.
    """
    budget = budget or TimeBudget()
    opened = _open(backend, variants, budget)
    if len(opened) == 1:
        return {}
    limits = backend.limits
    length = min(_SOURCE_LENGTH, limits.source_length)
    beam = min(beam, limits.rows_per_slot)
    source = (token,) * length
    found: dict[int, Mapping[Variant, float]] = {}
    for sentences in sorted({min(each, limits.slots) for each in SENTENCES}):
        backend.encode(EncodeBatch(0, [source] * sentences))
        tokens_BK = np.full((sentences, beam), token, np.int32)
        found[tokens_BK.size] = _timed(backend, tokens_BK, opened, budget)
    return found


def _open(backend: Measurable, variants: Sequence[Variant], budget: TimeBudget) -> list[Variant]:
    started = before = budget.clock()
    opened: list[Variant] = []
    longest = backend.opening_seconds
    for variant in variants:
        if opened and before - started + _SLOWER * longest > budget.opening:
            break
        backend.use(Choice(variant))
        opened.append(variant)
        after = budget.clock()
        longest, before = max(longest, after - before), after
    return opened


def _timed(
    backend: Measurable,
    tokens_BK: IntArray,
    variants: Sequence[Variant],
    budget: TimeBudget,
) -> dict[Variant, float]:
    sentences, beam = tokens_BK.shape
    # No row continues another one, so that the cache does not grow from step to step.
    parents_BK, positions_B = np.full_like(tokens_BK, EMPTY_ROW), np.zeros(sentences, np.int32)
    batch = StepBatch(parents_BK, tokens_BK, positions_B, 2 * beam)
    seconds: dict[Variant, list[float]] = {variant: [] for variant in variants}
    least = 0.0
    started = budget.clock()
    for number in range(budget.rounds):
        # The first round binds and warms up; it is always followed by one that counts.
        if number > 1 and budget.clock() - started > budget.steps / len(SENTENCES):
            break
        for variant in variants:
            if number > 1 and min(seconds[variant]) > _HOPELESS * least:
                continue
            backend.use(Choice(variant))
            taken = [_seconds(backend, batch, budget.clock)]
            if not number:
                continue
            while len(taken) < _STEPS and taken[0] < _SHORT:
                taken.append(_seconds(backend, batch, budget.clock))
            seconds[variant] += taken[1:] or taken
        least = min(map(min, seconds.values())) if number else 0.0
    return {variant: _middle(taken) for variant, taken in seconds.items()}


def _middle(seconds: list[float]) -> float:
    """Mean of the middle half: steps on several threads may have two speeds."""
    outer = len(seconds) // 4
    return fmean(sorted(seconds)[outer : len(seconds) - outer])


def _seconds(backend: Backend, batch: StepBatch, clock: Callable[[], float]) -> float:
    before = clock()
    backend.step(batch)
    return clock() - before
