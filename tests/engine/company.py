"""Sentences that arrive at random moments while others are being decoded."""

from __future__ import annotations

import random

from service.engine.scheduler import Scheduler, Sequence
from service.engine.types import Decoded
from service.runtime.backend import Backend


def decode_arriving(
    backend: Backend, scheduler: Scheduler, arriving: list[Sequence], rng: random.Random
) -> dict[int, Decoded]:
    """What becomes of each sentence, by its id; the books are looked at after every step."""
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
