"""Tests of the shares of callers in a batch: by steps, with a model that copies."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from service.engine.batch_capacity import BatchBounds, BatchCapacity
from service.engine.scheduler import Scheduler, Sequence
from service.engine.types import DecodingOptions, Priority
from service.runtime.backend import Limits
from tests.engine.test_scheduler import carry_out
from tests.engine.toy import SPECIAL_IDS, copying_model
from tests.support.toy import ScriptedBackend

LIMITS = Limits(slots=8, rows_per_slot=4, source_length=40, target_length=64)
GREEDY = DecodingOptions(beam_size=1)
WIDE = DecodingOptions(beam_size=4)


def scheduler_of(rows: float = 8, slots: int = 8) -> Scheduler:
    limits = Limits(slots, LIMITS.rows_per_slot, LIMITS.source_length, LIMITS.target_length)
    return Scheduler(limits, SPECIAL_IDS, max_batch_rows=rows)


def add(
    scheduler: Scheduler,
    caller: str,
    *ids: int,
    options: DecodingOptions = GREEDY,
    length: int = 30,
    priority: Priority = "interactive",
) -> None:
    for number in ids:
        scheduler.add(
            Sequence(number, (5,) * length, options, priority, request=number, caller=caller)
        )


def admitted(scheduler: Scheduler) -> list[int]:
    return [sequence.id for sequence in scheduler.schedule().admitted]


def running(scheduler: Scheduler) -> list[str]:
    return sorted(sequence.caller for sequence in scheduler.running)


def test_rows_of_all_sentences_together_stay_within_the_bound() -> None:
    scheduler = scheduler_of(rows=9)
    add(scheduler, "a", 0, 1, 2, options=WIDE)
    assert admitted(scheduler) == [0, 1]


def test_sentence_wider_than_the_bound_runs_alone() -> None:
    scheduler = scheduler_of(rows=2)
    add(scheduler, "a", 0, 1, options=WIDE)
    assert admitted(scheduler) == [0]


def test_lone_caller_gets_the_whole_batch() -> None:
    scheduler = scheduler_of()
    add(scheduler, "a", *range(20))
    assert admitted(scheduler) == list(range(8))


def test_callers_that_wait_together_share_the_batch() -> None:
    scheduler = scheduler_of()
    add(scheduler, "a", *range(20))
    add(scheduler, "b", *range(20, 40))
    scheduler.schedule()
    assert running(scheduler) == ["a"] * 4 + ["b"] * 4


def test_many_requests_of_one_caller_count_as_one_share() -> None:
    scheduler = scheduler_of(rows=100, slots=4)
    add(scheduler, "a", *range(50))
    scheduler.schedule()
    for number in range(4):
        scheduler.abort(number)
    add(scheduler, "b", 50)
    assert 50 in admitted(scheduler)


def test_sentence_of_another_caller_enters_a_full_batch_at_once() -> None:
    scheduler = scheduler_of()
    add(scheduler, "a", 0, 1, 2, options=WIDE)
    scheduler.schedule()
    assert running(scheduler) == ["a", "a"]
    add(scheduler, "b", 3)
    plan = scheduler.schedule()
    assert [sequence.id for sequence in plan.displaced] == [1]
    assert [sequence.id for sequence in plan.admitted] == [3]
    scheduler.check_integrity()


def test_displaced_sentences_return_when_the_other_caller_has_left() -> None:
    scheduler, backend = scheduler_of(), ScriptedBackend(copying_model, LIMITS)
    add(scheduler, "a", 0, 1, options=WIDE)
    scheduler.apply(carry_out(scheduler.schedule(), backend))
    add(scheduler, "b", 2, length=2)
    left = []
    while scheduler.has_work:
        leaving = scheduler.apply(carry_out(scheduler.schedule(), backend))
        left += [sequence.id for sequence, _ in leaving]
        scheduler.check_integrity()
    assert left == [2, 0, 1]


def test_caller_at_its_share_is_not_displaced_for_a_third() -> None:
    scheduler = scheduler_of()
    add(scheduler, "a", 0, options=WIDE)
    add(scheduler, "b", 1, options=WIDE)
    scheduler.schedule()
    add(scheduler, "c", 2)
    plan = scheduler.schedule()
    assert plan.displaced == [] and plan.admitted == []


def test_long_sentences_count_by_their_tokens() -> None:
    scheduler = Scheduler(LIMITS, SPECIAL_IDS, max_batch_tokens=80)
    add(scheduler, "a", 0, 1, 2, 3, length=40)
    assert admitted(scheduler) == [0, 1]
    add(scheduler, "b", 4, length=2)
    plan = scheduler.schedule()
    assert [sequence.id for sequence in plan.displaced] == [1]
    assert [sequence.id for sequence in plan.admitted] == [4]


def test_bulk_sentences_preempt_no_other_caller() -> None:
    scheduler = scheduler_of()
    add(scheduler, "a", *range(8))
    scheduler.schedule()
    add(scheduler, "b", 8, priority="bulk")
    assert scheduler.schedule().displaced == []


def test_sentences_are_displaced_if_padding_keeps_another_caller_out() -> None:
    scheduler = Scheduler(LIMITS, SPECIAL_IDS, max_batch_tokens=40, max_batch_rows=4)
    add(scheduler, "a", 0, 1, 2, 3, length=10)
    scheduler.schedule()
    add(scheduler, "b", 4, length=13)
    plan = scheduler.schedule()
    assert [sequence.id for sequence in plan.admitted] == [4]
    assert len(plan.displaced) == 2


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(1, 6), st.sampled_from([GREEDY, WIDE])),
        max_size=30,
    ),
    st.integers(1, 12),
)
def test_every_sentence_of_every_caller_is_decoded_once(
    asked: list[tuple[str, int, DecodingOptions]], rows: int
) -> None:
    scheduler, backend = scheduler_of(rows, slots=4), ScriptedBackend(copying_model, LIMITS)
    left: list[int] = []
    for number, (caller, length, options) in enumerate(asked):
        add(scheduler, caller, number, options=options, length=length)
        left += [s.id for s, _ in scheduler.apply(carry_out(scheduler.schedule(), backend))]
        scheduler.check_integrity()
    while scheduler.has_work:
        left += [s.id for s, _ in scheduler.apply(carry_out(scheduler.schedule(), backend))]
        scheduler.check_integrity()
    assert sorted(left) == list(range(len(asked)))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9)), max_size=20), st.randoms())
def test_capacity_is_that_of_the_sentences_inside_whatever_was_released(
    sentences: list[tuple[str, int]], random: Random
) -> None:
    bounds, inside = BatchBounds(20, 90, 30), []
    capacity = BatchCapacity(bounds)
    for number, (caller, length) in enumerate(sentences):
        inside.append(Sequence(number, (5,) * length, GREEDY, caller=caller))
        capacity.take(inside[-1])
        if random.random() < 0.5:
            capacity.release(inside.pop(random.randrange(len(inside))))
    fresh = BatchCapacity(bounds)
    for sentence in inside:
        fresh.take(sentence)
    assert capacity.slots == fresh.slots
    for each in (capacity, fresh):
        each.share_with({"d"})
    for caller in "abcd":
        sentence = Sequence(99, (5,) * 7, WIDE, caller=caller)
        assert capacity.fits(sentence) == fresh.fits(sentence)
        assert capacity.serves(caller) == fresh.serves(caller)
        assert capacity.is_closed_to(caller) == fresh.is_closed_to(caller)


def test_release_undoes_take() -> None:
    sentences = [Sequence(n, (5,) * (n + 1), GREEDY, caller="a") for n in range(3)]
    capacity = BatchCapacity(BatchBounds(3, 9, 3))
    for sentence in sentences:
        capacity.take(sentence)
    assert capacity.slots == 0 and not capacity.fits(sentences[0])
    capacity.release(sentences[2])
    assert capacity.slots == 1 and capacity.fits(sentences[2])
