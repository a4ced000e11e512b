"""Runs scheduler and backend with sentences that arrive at random steps."""

from __future__ import annotations

import random

from service.engine.scheduler import Scheduler, Sequence
from service.engine.types import Decoded
from service.runtime.backend import Backend


def decode_arriving(
    backend: Backend, scheduler: Scheduler, arriving: list[Sequence], rng: random.Random
) -> dict[int, Decoded]:
    """Results by sentence id; checks the scheduler's integrity after every step."""
    results: dict[int, Decoded] = {}
    while arriving or scheduler.has_work:
        while arriving and (rng.random() < 0.4 or not scheduler.has_work):
            scheduler.add(arriving.pop(0))
        plan = scheduler.schedule()
        for origin, slot in plan.moves:
            backend.move(origin, slot)
        if plan.encode is not None:
            backend.encode(plan.encode)
        assert plan.step is not None
        for sequence, decoded in scheduler.apply(backend.step(plan.step)):
            assert isinstance(decoded, Decoded)
            results[sequence.id] = decoded
        scheduler.check_integrity()
    return results
