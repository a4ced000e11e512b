"""Tests of the cost fit, and that predictions do not use the latencies they predict."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.client import Plan
from benchmarks.queueing.batch import PlainBatch, Shape
from benchmarks.queueing.costs import Costs, Slice, Slowness, Window, Work, fit
from benchmarks.queueing.fleet import Site
from benchmarks.queueing.prediction import predict_plan
from benchmarks.queueing.record import RecordError, SiteRecord, read, write
from benchmarks.queueing.validation import Measuring, Protocol
from benchmarks.queueing.watched import Seen, Watched
from benchmarks.queueing.workload import Workload

COSTS = Costs(4e-4, 8e-5, 2e-3, 4e-5, 8e-4, 8e-4)
WORKLOAD = Workload(
    "made up", ("a", "b", "c"), ("a!", "b!", "c!"), ("abc",), ((5, 6), (12, 14), (8, 9))
)


def window(costs: Costs, noise: float, chance: random.Random) -> Window:
    work = Work(
        steps=chance.uniform(200, 900),
        rows=chance.uniform(1000, 20_000),
        encodes=chance.uniform(20, 200),
        source_tokens=chance.uniform(1000, 9000),
    )
    requests = chance.randrange(100, 400)
    encodes, steps, loop = (chance.uniform(1 - noise, 1 + noise) for _ in range(3))
    encodes *= encoding(costs, work)
    steps *= costs.of(work) - encoding(costs, work)
    loop *= (costs.receive + costs.answer) * requests
    return Window(work, requests, encodes + steps, encodes, loop)


def encoding(costs: Costs, work: Work) -> float:
    return costs.encode * work.encodes + costs.source_token * work.source_tokens


@pytest.mark.parametrize(("noise", "within"), [(0.0, 1e-6), (0.02, 0.2)])
def test_fit_recovers_known_costs(noise: float, within: float) -> None:
    chance = random.Random(1)
    windows = [window(COSTS, noise, chance) for _ in range(30)]
    found = fit(windows, windows)
    for name in ("step", "row", "encode", "source_token", "receive", "answer"):
        assert getattr(found.costs, name) == pytest.approx(getattr(COSTS, name), rel=within)
    assert found.error <= noise + 1e-9
    assert found.loop_error <= noise + 1e-9


def test_fitted_costs_are_not_negative() -> None:
    chance = random.Random(2)
    nothing = Costs(1e-3, 0.0, 0.0, 1e-5, 1e-3, 1e-3)
    windows = [window(nothing, 0.1, chance) for _ in range(12)]
    costs = fit(windows, windows).costs
    assert min(costs.step, costs.row, costs.encode, costs.source_token) >= 0


def test_too_few_windows_are_refused() -> None:
    chance = random.Random(3)
    windows = [window(COSTS, 0.0, chance) for _ in range(4)]
    with pytest.raises(ValueError, match="measure more"):
        fit(windows[:3], windows)
    idle = Window(Work(0, 0, 0, 0), 0, 0.0, 0.0, 0.0)
    with pytest.raises(ValueError, match="without work"):
        fit([*windows, idle], windows)
    with pytest.raises(ValueError, match="without an encode"):
        fit([*windows, replace(windows[0], encode_seconds=0.0)], windows)


def test_slower_machine_scales_all_costs() -> None:
    plan = Plan(WORKLOAD.bodies, 5, rate=1, seed=1)
    slower = Plan(WORKLOAD.bodies, 10, rate=0.5, seed=1)
    one, other = (
        predict_plan(PlainBatch(Shape()), costs, each, WORKLOAD.lengths, one_core=True)
        for costs, each in ((COSTS, plan), (COSTS.slower(2), slower))
    )
    assert other.latencies == pytest.approx([2 * latency for latency in one.latencies])


def test_slowness_is_that_of_the_slice_at_a_time() -> None:
    work = Work(100, 1000, 10, 100)
    usual = COSTS.of(work) + 5 * COSTS.receive + 3 * COSTS.answer
    slices = [
        Slice(0.5, work, 5, 3, usual),
        Slice(1.0, work, 5, 3, 2 * usual),
        Slice(1.5, Work(0, 0, 0, 0), 0, 0, 0.01),
        Slice(2.0, work, 5, 3, 3 * usual),
    ]
    slower = Slowness(COSTS, slices)
    assert [slower(at) for at in (-1, 0.5, 0.7, 1.2, 1.9, 99)] == pytest.approx([1, 1, 2, 3, 3, 3])
    with pytest.raises(ValueError, match="how slow the machine was"):
        Slowness(COSTS, slices[2:3])


class Twin(Watched):
    """A service that is itself the simulation, on a machine slower by ``factor``."""

    def see(self, plan: Plan) -> Seen:
        # Clients in turn act like a low rate here: costs are fitted to work and time only.
        rate = plan.rate or 5.0 * plan.clients
        raining = Plan(plan.bodies, plan.seconds, rate=rate, seed=plan.seed)
        lengths = WORKLOAD.lengths
        if plan.bodies == WORKLOAD.short_bodies:
            lengths = tuple((source_length, 2) for source_length, _ in lengths)
        batch = Counting(Shape())
        predicted = predict_plan(batch, COSTS, raining, lengths, one_core=True)
        requests = len(predicted.latencies)
        loop = (COSTS.receive + COSTS.answer) * requests
        engine = predicted.busy_seconds - loop
        seen = Window(batch.total, requests, engine, encoding(COSTS, batch.total), loop)
        part = Slice(0.0, batch.total, requests, requests, predicted.busy_seconds)
        return Seen(seen, predicted.latencies, (part,), others=0.0)


class Counting(PlainBatch):
    """Sums its work, as a service's metrics do."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.total = Work(0, 0, 0, 0)

    def begin(self) -> Work:
        work = super().begin()
        self.total = Work(
            self.total.steps + work.steps,
            self.total.rows + work.rows,
            self.total.encodes + work.encodes,
            self.total.source_tokens + work.source_tokens,
        )
        return work


def test_simulated_service_is_predicted_exactly() -> None:
    said: list[str] = []
    protocol = Protocol(rounds=2, seconds=3, window_seconds=2)
    twin = Twin("nowhere", 0, 0, alone=True)
    validation = Measuring(twin, WORKLOAD, protocol, said.append).validate(Shape())
    assert [compared.load for compared in validation.compared] == list(protocol.loads)
    for compared in validation.compared:
        assert compared.worst < 0.01
        assert compared.busy == pytest.approx(1, rel=0.01)
        assert compared.requests > 0
    assert any("round 2, 70%" in line for line in said)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "costs.json"
    site = Site(Shape(slots=7), COSTS, WORKLOAD.lengths, one_core=True)
    write(path, SiteRecord.of(site, "a machine"))
    assert read(path).site() == site


def test_missing_or_invalid_record_error_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="validate measures them"):
        read(tmp_path / "none.json")
    broken = tmp_path / "broken.json"
    broken.write_text('{"about": "x"}', encoding="utf-8")
    with pytest.raises(RecordError, match="no record of costs: costs: Field required"):
        read(broken)
