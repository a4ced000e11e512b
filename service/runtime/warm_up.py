"""Batches that a backend on a GPU runs before it serves, so that none of them is the first of its
shape when requests wait: the first allocates, loads kernels and may be captured."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from service.runtime.backend import WarmUp
from service.runtime.memory import Memory

_OWN = (64, 128)
_CROSS = (32, 64, 96, 128)
"""Entries of the caches of sentences of usual lengths. Longer ones run when they first occur."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Sentences of a step, and the entries of their caches."""

    own: int
    cross: int
    sentences: int


def lengths(own_limit: int, cross_limit: int) -> Iterator[tuple[int, int]]:
    """Entries of both caches; the second grow first, because a pool shrinks by leaps only."""
    for own in sorted({min(own, own_limit) for own in _OWN}):
        for cross in sorted({min(cross, cross_limit) for cross in _CROSS}):
            yield own, cross


def sizes(memory: Memory, slots: int) -> list[int]:
    """Numbers of sentences that batches are padded to, the largest first."""
    return sorted({memory.batch_size(sentences, slots) for sentences in range(1, slots + 1)})[::-1]


def warm_up(shapes: Sequence[Shape], run: Callable[[Shape], None], seconds: float) -> WarmUp:
    """Run the shapes until ``seconds`` are over."""
    started = time.monotonic()
    done = 0
    for shape in shapes:
        if time.monotonic() - started > seconds:
            break
        run(shape)
        done += 1
    return WarmUp(done, len(shapes), time.monotonic() - started)
