from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine.errors import BackendFailed, SentenceTooLong
from service.engine.scheduler import Plan, Scheduler, Sequence
from service.engine.types import Decoded, DecodingOptions, FinishReason
from service.runtime.backend import Candidates, Limits
from tests.engine.toy import SPECIAL_IDS, copying_model, random_model
from tests.support.toy import ScriptedBackend

LIMITS = Limits(slots=3, rows_per_slot=5, source_length=8, target_length=16)
GREEDY = DecodingOptions(beam_size=1)


def make_scheduler(limits: Limits = LIMITS, *, max_padded_tokens: int = 4096) -> Scheduler:
    return Scheduler(limits, SPECIAL_IDS, max_padded_tokens=max_padded_tokens)


def step(
    scheduler: Scheduler, backend: ScriptedBackend
) -> list[tuple[Sequence, Decoded | BackendFailed]]:
    plan = scheduler.schedule()
    leaving = scheduler.apply(carry_out(plan, backend))
    scheduler.check_integrity()
    return leaving


def carry_out(plan: Plan, backend: ScriptedBackend) -> Candidates:
    for origin, slot in plan.moves:
        backend.move(origin, slot)
    if plan.encode is not None:
        backend.encode(plan.encode)
    assert plan.step is not None
    return backend.step(plan.step)


def test_the_slot_of_a_finished_sentence_is_reused_in_the_next_iteration() -> None:
    scheduler, backend = make_scheduler(), ScriptedBackend(copying_model, LIMITS)
    for i, length in enumerate([1, 4, 4, 4]):
        scheduler.add(Sequence(i, (5,) * length, GREEDY))

    left = []
    while scheduler.has_work:
        left.append([sequence.id for sequence, _ in step(scheduler, backend)])

    assert left == [[], [0], [], [], [2, 1], [], [3]]
    assert backend.batch_sizes == [3, 3, 3, 3, 3, 1, 1]
    assert backend.encode_sizes == [3, 1]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from(["add", "add", "step", "cancel", "fail"]), max_size=60),
    st.randoms(),
)
def test_no_slot_and_no_sentence_is_lost(actions: list[str], rng: random.Random) -> None:
    scheduler, backend = make_scheduler(), ScriptedBackend(random_model, LIMITS)
    options = DecodingOptions(beam_size=2, max_decoding_length=5)
    added = 0
    for action in actions:
        if action == "add":
            scheduler.add(Sequence(added, (3, 4), options))
            added += 1
        elif action == "cancel":
            scheduler.abort(rng.randrange(added + 1), "cancelled")
        elif action == "fail":
            scheduler.abort(rng.randrange(added + 1), "failed")
        elif scheduler.has_work:
            step(scheduler, backend)
        scheduler.check_integrity()

    while scheduler.has_work:
        step(scheduler, backend)
    outcomes = scheduler.outcomes
    assert added == outcomes.accepted == outcomes.finished + outcomes.failed + outcomes.cancelled


def test_padded_tokens_of_one_encode_stay_within_the_bound() -> None:
    limits = Limits(slots=8, rows_per_slot=1, source_length=8, target_length=16)
    scheduler = make_scheduler(limits, max_padded_tokens=12)
    backend = ScriptedBackend(copying_model, limits)
    for i, length in enumerate([3, 3, 6, 2, 8, 1]):
        scheduler.add(Sequence(i, (5,) * length, GREEDY))

    admitted = []
    while scheduler.waiting:
        plan = scheduler.schedule()
        admitted.append([sequence.id for sequence in plan.admitted])
        scheduler.apply(carry_out(plan, backend))

    assert admitted == [[0, 1, 3, 5], [2], [4]]


def test_max_batch_tokens_limits_the_batch_with_a_long_sentence() -> None:
    limits = Limits(slots=8, rows_per_slot=1, source_length=8, target_length=16)
    scheduler = Scheduler(limits, SPECIAL_IDS, max_batch_tokens=12)
    for i, length in enumerate([8, 2, 2, 2, 2, 2, 2]):
        scheduler.add(Sequence(i, (5,) * length, GREEDY))
    backend = ScriptedBackend(copying_model, limits)
    running = []
    while scheduler.has_work:
        plan = scheduler.schedule()
        running.append([sequence.id for sequence in plan.sequences])
        scheduler.apply(carry_out(plan, backend))
    assert running[0] == [0]
    assert running[9] == [1, 2, 3, 4, 5, 6]


def test_a_sentence_longer_than_max_padded_tokens_is_admitted_alone() -> None:
    scheduler = make_scheduler(max_padded_tokens=2)
    for i in range(2):
        scheduler.add(Sequence(i, (5,) * 8, GREEDY))
    assert [sequence.id for sequence in scheduler.schedule().admitted] == [0]
    assert [sequence.id for sequence in scheduler.schedule().admitted] == [1]


def test_a_sentence_cancelled_while_waiting_is_never_admitted() -> None:
    scheduler = make_scheduler()
    for i in range(3):
        scheduler.add(Sequence(i, (5, 6), GREEDY))
    assert not scheduler.abort(1)
    assert scheduler.waiting.tokens == 4
    assert [sequence.id for sequence in scheduler.schedule().admitted] == [0, 2]
    assert scheduler.abort(2)
    assert not scheduler.abort(2)
    scheduler.check_integrity()


def test_reschedule_admits_no_sentence() -> None:
    scheduler = make_scheduler()
    scheduler.add(Sequence(0, (5, 6), GREEDY))
    assert scheduler.reschedule().sequences == []
    scheduler.schedule()
    scheduler.add(Sequence(1, (5, 6), GREEDY))
    plan = scheduler.reschedule()
    assert [sequence.id for sequence in plan.sequences] == [0]
    assert plan.encode is None


def test_nan_in_one_sentence_fails_only_that_sentence() -> None:
    scheduler, backend = make_scheduler(), ScriptedBackend(copying_model, LIMITS)
    for i in range(3):
        scheduler.add(Sequence(i, (5,), DecodingOptions(beam_size=2)))
    plan = scheduler.schedule()
    candidates = carry_out(plan, backend)
    candidates.log_probs_BKN[1, 0, 3] = np.nan

    leaving = scheduler.apply(candidates)

    assert [(sequence.id, type(outcome)) for sequence, outcome in leaving] == [(1, BackendFailed)]
    assert sorted(sequence.id for sequence in scheduler.running) == [0, 2]
    scheduler.check_integrity()


def test_a_sentence_longer_than_the_source_limit_is_refused() -> None:
    scheduler = make_scheduler()
    with pytest.raises(SentenceTooLong, match="9 tokens; the model reads at most 8"):
        scheduler.add(Sequence(0, (3,) * 9, DecodingOptions()))
    assert not scheduler.has_work
    assert scheduler.outcomes.accepted == 0


def test_max_decoding_length_is_reduced_to_the_models_limit() -> None:
    limits = Limits(slots=1, rows_per_slot=1, source_length=8, target_length=3)
    scheduler, backend = make_scheduler(limits), ScriptedBackend(copying_model, limits)
    scheduler.add(Sequence(0, (3, 4, 5, 6), DecodingOptions(beam_size=1, max_decoding_length=9)))
    leaving = [step(scheduler, backend) for _ in range(3)]
    ((_, decoded),) = leaving[-1]
    assert isinstance(decoded, Decoded)
    assert decoded.hypotheses[0].token_ids == (3, 4, 5)
    assert decoded.finish_reason is FinishReason.LENGTH
    assert not scheduler.has_work
