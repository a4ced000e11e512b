"""Tests of the simulated service against results of queueing theory."""

from __future__ import annotations

import random
import statistics
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.client import Plan, arrivals
from benchmarks.queueing.batch import Batch, PlainBatch, ScheduledBatch, Sentence, Shape
from benchmarks.queueing.costs import Costs
from benchmarks.queueing.prediction import capacity, percentile, predict, predict_plan
from benchmarks.queueing.replica import NEVER, Replica

SMALL = Shape(slots=3, beam_size=2, max_padded_tokens=12, max_batch_tokens=18)
COSTS = Costs(1e-3, 1e-4, 2e-3, 3e-5, 5e-4, 4e-4)
FREE = Costs(0, 0, 0, 0, 0, 0)

sentences = st.tuples(st.integers(1, 9), st.integers(1, 6))
crowds = st.lists(
    st.tuples(st.floats(0, 0.02), sentences), min_size=1, max_size=25
)  # gaps before arrivals


@given(st.lists(st.lists(st.tuples(sentences, st.booleans()), max_size=3), max_size=15))
@settings(deadline=None, max_examples=60)
def test_plain_batch_agrees_with_the_services_scheduler(
    rounds: list[list[tuple[tuple[int, int], bool]]],
) -> None:
    plain, scheduled = PlainBatch(SMALL), ScheduledBatch(SMALL)
    number = 0
    for added in [*rounds, *[[]] * 200]:
        for (source_length, steps), bulk in added:
            sentence = Sentence(number, source_length, steps, "bulk" if bulk else "interactive")
            plain.add(sentence)
            scheduled.add(sentence)
            number += 1
        assert plain.has_work == scheduled.has_work
        if plain.has_work:
            assert plain.begin() == scheduled.begin()
            assert plain.running == scheduled.running
            assert plain.end() == scheduled.end()
    assert not plain.has_work


@given(crowds, st.booleans())
@settings(deadline=None, max_examples=60)
def test_all_requests_are_answered_and_none_faster_than_alone(
    crowd: list[tuple[float, tuple[int, int]]], one_core: bool
) -> None:
    replica = Replica(PlainBatch(SMALL), COSTS, one_core=one_core)
    now = 0.0
    for number, (gap, length) in enumerate(crowd):
        now += gap
        replica.arrive(now, Sentence(number, *length))
    replica.advance(1e9)
    assert replica.ongoing == 0
    assert replica.most_together <= SMALL.slots
    latencies = dict(replica.latencies)
    for number, (_, length) in enumerate(crowd):
        alone = predict(PlainBatch(SMALL), COSTS, [0.0], [length], one_core=one_core)
        assert latencies[number] >= alone.latencies[0] - 1e-9


def test_latency_of_a_lone_sentence_is_the_cost_of_its_work() -> None:
    predicted = predict(PlainBatch(SMALL), COSTS, [1.0], [(5, 3)], one_core=True)
    # Rows of the three steps: 1, 2, 2.
    work = 3 * COSTS.step + 5 * COSTS.row + COSTS.encode + 5 * COSTS.source_token
    assert predicted.latencies == pytest.approx([work + COSTS.receive + COSTS.answer])


@given(crowds)
@settings(deadline=None, max_examples=40)
def test_shared_core_idles_only_without_requests(
    crowd: list[tuple[float, tuple[int, int]]],
) -> None:
    due = [0.0] * len(crowd)
    predicted = predict(PlainBatch(SMALL), COSTS, due, [each for _, each in crowd], one_core=True)
    assert predicted.ended == pytest.approx(predicted.busy_seconds)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_waiting_time_with_one_slot_follows_pollaczek_khinchine(load: float) -> None:
    shape = Shape(slots=1, beam_size=1)
    costs = replace(FREE, step=0.01)
    due = poisson(load / costs.step, 40_000)
    predicted = predict(PlainBatch(shape), costs, due, [(5, 1)], one_core=False)
    wait = statistics.mean(predicted.latencies) - costs.step
    assert wait == pytest.approx(load * costs.step / (2 * (1 - load)), rel=0.07)


@pytest.mark.parametrize("batch", [PlainBatch, ScheduledBatch])
def test_mean_number_of_requests_follows_littles_law(batch: type[Batch]) -> None:
    replica = Replica(batch(SMALL), COSTS, one_core=True)  # type: ignore[call-arg]
    due, now, area = poisson(60, 300), 0.0, 0.0
    for number, at in enumerate([*due, NEVER]):
        while (event := replica.next_event) <= at and event < NEVER:
            area += replica.ongoing * (event - now)
            replica.advance(event)
            now = event
        if at < NEVER:
            area += replica.ongoing * (at - now)
            replica.arrive(at, Sentence(number, 3 + number % 5, 2 + number % 4))
            now = at
    mean_latency = statistics.mean(latency for _, latency in replica.latencies)
    assert area / now == pytest.approx(len(due) / now * mean_latency)


def test_higher_load_increases_latency() -> None:
    most = capacity(SMALL, COSTS, [(5, 4)], one_core=True)
    means = []
    for load in (0.2, 0.5, 0.8, 0.95):
        due = poisson(load * most, 4000)
        predicted = predict(PlainBatch(SMALL), COSTS, due, [(5, 4)], one_core=True)
        means.append(statistics.mean(predicted.latencies))
    assert means == sorted(means)


def test_separate_cores_are_no_slower_than_a_shared_one() -> None:
    due = poisson(100, 2000)
    lengths = [(3, 2), (8, 6)]
    shared, apart = (
        predict(PlainBatch(SMALL), COSTS, due, lengths, one_core=one_core)
        for one_core in (True, False)
    )
    assert statistics.mean(apart.latencies) < statistics.mean(shared.latencies)


def test_event_loop_preempts_the_engine_on_a_shared_core() -> None:
    replica = Replica(PlainBatch(SMALL), replace(FREE, step=1.0, receive=0.1), one_core=True)
    replica.arrive(0.0, Sentence(0, 5, 1))
    replica.arrive(0.5, Sentence(1, 5, 1))
    replica.advance(10)
    # 0.1 to receive, 1 to decode, and 0.1 preempted by the second request.
    assert dict(replica.latencies)[0] == pytest.approx(1.2)


def test_prediction_uses_the_arrivals_that_clients_send() -> None:
    plan = Plan(("a", "b"), seconds=2, rate=50, seed=3)
    lengths = [(5, 4), (9, 2)]
    one, other = (
        predict_plan(PlainBatch(SMALL), COSTS, plan, lengths, one_core=True) for _ in range(2)
    )
    assert one == other
    assert len(one.latencies) == len(list(arrivals(plan)))
    assert all(0 < at < plan.seconds for at in arrivals(plan))


def test_percentile_is_a_value_that_this_share_does_not_exceed() -> None:
    assert percentile(range(1, 101), 0.99) == 99
    assert percentile(range(1, 101), 0.5) == 50
    assert percentile([7.0], 0.99) == 7.0
    with pytest.raises(ValueError, match="nothing was measured"):
        percentile([], 0.5)


def poisson(rate: float, count: int) -> list[float]:
    chance, now = random.Random(7), 0.0
    return [now := now + chance.expovariate(rate) for _ in range(count)]
