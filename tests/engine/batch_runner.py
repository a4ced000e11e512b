"""Runs scheduler and backend with sentences that arrive at random steps."""

from __future__ import annotations

import random

from service.engine.scheduler import Scheduler, Sequence
from service.engine.types import Decoded, DecodingOptions
from service.runtime.backend import Backend, Limits
from tests.engine.toy import SPECIAL_IDS, random_attention, random_model
from tests.support.toy import ScriptedBackend


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


def decode_together(
    requests: list[tuple[tuple[int, ...], DecodingOptions]], limits: Limits
) -> list[Decoded]:
    """Results of sources with their options, by a random model."""
    backend = ScriptedBackend(random_model, limits, random_attention)
    sequences = [Sequence(i, *request) for i, request in enumerate(requests)]
    found = decode_arriving(backend, Scheduler(limits, SPECIAL_IDS), sequences, random.Random(0))
    return [found[number] for number in range(len(requests))]
