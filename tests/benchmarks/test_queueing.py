"""Tests of the simulated service against results of queueing theory and the service's scheduler."""

from __future__ import annotations

import math
import random
import statistics
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.queueing.costs import Costs, Work
from benchmarks.queueing.simulation import Batch, Replica, Sentence, Shape, Site, percentile
from models.bundle.manifest import SpecialIds
from service.engine.scheduler import Scheduler, Sequence
from service.engine.types import DecodingOptions
from service.runtime.backend import Candidates, Limits

SMALL = Shape(slots=3, beam_size=2, max_padded_tokens=12, max_batch_tokens=18)
COSTS = Costs(1e-3, 1e-4, 2e-3, 3e-5, 5e-4, 4e-4)
FREE = Costs(0, 0, 0, 0, 0, 0)
SITE = Site("made up", SMALL, COSTS, ((5, 4), (3, 2), (8, 6)), one_core=True)
SPECIAL_IDS = SpecialIds(pad=0, unk=1, bos=2, eos=3)
WORD = 4

sentences = st.tuples(st.integers(1, 9), st.integers(1, 6))
crowds = st.lists(
    st.tuples(st.floats(0, 0.02), sentences), min_size=1, max_size=25
)  # gaps before arrivals


class ScheduledBatch:
    """The service's scheduler and search, with candidates that never end a sentence."""

    def __init__(self, shape: Shape) -> None:
        self._beam_size = shape.beam_size
        limits = Limits(shape.slots, shape.beam_size, source_length=1 << 16, target_length=1 << 10)
        self._scheduler = Scheduler(
            limits,
            SPECIAL_IDS,
            max_padded_tokens=shape.max_padded_tokens,
            max_batch_tokens=shape.max_batch_tokens,
        )

    @property
    def has_work(self) -> bool:
        return self._scheduler.has_work

    def add(self, sentence: Sentence) -> None:
        source_ids = (WORD,) * (sentence.source_length - 1) + (SPECIAL_IDS.eos,)
        options = DecodingOptions(
            beam_size=self._beam_size, max_decoding_length=sentence.steps, return_scores=False
        )
        self._scheduler.add(Sequence(sentence.id, source_ids, options, sentence.priority))

    def iterate(self) -> tuple[Work, list[int]]:
        plan = self._scheduler.schedule()
        assert plan.step is not None
        rows = plan.step.parents_BK.shape
        shape = *rows, plan.step.num_candidates
        log_probs_BKN = np.broadcast_to(-1 - np.arange(shape[2], dtype=np.float32), shape)
        candidates = Candidates(np.full(shape, WORD), log_probs_BKN, np.zeros(rows, np.float32))
        work = Work(
            steps=1,
            rows=int(np.count_nonzero(plan.step.parents_BK >= 0)),
            encodes=int(bool(plan.admitted)),
            source_tokens=sum(sequence.source_length for sequence in plan.admitted),
        )
        return work, [sequence.id for sequence, _ in self._scheduler.apply(candidates)]


@given(st.lists(st.lists(st.tuples(sentences, st.booleans()), max_size=3), max_size=15))
@settings(deadline=None, max_examples=60)
def test_simulated_batch_agrees_with_the_services_scheduler(
    rounds: list[list[tuple[tuple[int, int], bool]]],
) -> None:
    simulated, scheduled = Batch(SMALL), ScheduledBatch(SMALL)
    number = 0
    for added in [*rounds, *[[]] * 200]:
        for (source_length, steps), bulk in added:
            sentence = Sentence(number, source_length, steps, "bulk" if bulk else "interactive")
            simulated.add(sentence)
            scheduled.add(sentence)
            number += 1
        assert simulated.has_work == scheduled.has_work
        if simulated.has_work:
            work = simulated.begin()
            assert len(simulated.running) <= SMALL.slots
            assert (work, simulated.end()) == scheduled.iterate()
    assert not simulated.has_work


@given(crowds, st.booleans())
@settings(deadline=None, max_examples=60)
def test_all_requests_are_answered_and_none_faster_than_alone(
    crowd: list[tuple[float, tuple[int, int]]], one_core: bool
) -> None:
    site = replace(SITE, lengths=tuple(length for _, length in crowd), one_core=one_core)
    due, now = [], 0.0
    for gap, _ in crowd:
        due.append(now := now + gap)
    replica = site.predict(due)
    assert replica.ongoing == 0
    assert replica.latencies.keys() == set(range(len(crowd)))
    for number, latency in replica.latencies.items():
        assert latency >= site.alone(number) - 1e-9


def test_latency_of_a_lone_sentence_is_the_cost_of_its_work() -> None:
    site = replace(SITE, lengths=((5, 3),))
    # Rows of the three steps: 1, 2, 2.
    work = 3 * COSTS.step + 5 * COSTS.row + COSTS.encode + 5 * COSTS.source_token
    assert site.alone(0) == pytest.approx(work + COSTS.receive + COSTS.answer)
    assert site.alone_p99 == site.alone(0)


@given(crowds)
@settings(deadline=None, max_examples=40)
def test_shared_core_idles_only_without_requests(
    crowd: list[tuple[float, tuple[int, int]]],
) -> None:
    site = replace(SITE, lengths=tuple(length for _, length in crowd))
    replica = site.predict([0.0] * len(crowd))
    assert replica.ended == pytest.approx(replica.busy_seconds)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_waiting_time_with_one_slot_follows_pollaczek_khinchine(load: float) -> None:
    costs = replace(FREE, step=0.01)
    site = Site("M/D/1", Shape(slots=1, beam_size=1), costs, ((5, 1),), one_core=False)
    latencies = site.predict(poisson(load / costs.step, 20_000)).latencies.values()
    wait = statistics.mean(latencies) - costs.step
    assert wait == pytest.approx(load * costs.step / (2 * (1 - load)), rel=0.1)


def test_mean_number_of_requests_follows_littles_law() -> None:
    replica = Replica(SITE)
    due, now, area = poisson(60, 300), 0.0, 0.0
    for number, at in enumerate([*due, math.inf]):
        while (event := replica.next_event) <= at and event < math.inf:
            area += replica.ongoing * (event - now)
            replica.advance(event)
            now = event
        if at < math.inf:
            area += replica.ongoing * (at - now)
            replica.arrive(at, SITE.sentence(number))
            now = at
    mean_latency = statistics.mean(replica.latencies.values())
    assert area / now == pytest.approx(len(due) / now * mean_latency)


def test_event_loop_preempts_the_engine_on_a_shared_core() -> None:
    costs = replace(FREE, step=1.0, receive=0.1)
    replica = replace(SITE, costs=costs, lengths=((5, 1),)).predict([0.0, 0.5])
    # 0.1 to receive, 1 to decode, and 0.1 preempted by the second request.
    assert replica.latencies[0] == pytest.approx(1.2)


def test_slower_machine_scales_all_latencies() -> None:
    due = poisson(60, 300)
    usual = SITE.predict(due).latencies
    slow = replace(SITE, costs=COSTS.slower(2)).predict([2 * at for at in due]).latencies
    assert slow == pytest.approx({number: 2 * latency for number, latency in usual.items()})


def test_percentile_is_a_value_that_this_share_does_not_exceed() -> None:
    assert percentile(range(1, 101), 0.99) == 99
    assert percentile(range(1, 101), 0.5) == 50
    assert percentile([7.0], 0.99) == 7.0


def poisson(rate: float, count: int) -> list[float]:
    chance, now = random.Random(7), 0.0
    return [now := now + chance.expovariate(rate) for _ in range(count)]
