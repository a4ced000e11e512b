"""Tests of the cost fit, and that predictions do not use the latencies they predict."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import astuple, dataclass, replace
from pathlib import Path

import pytest

from benchmarks.client import Plan, arrivals
from benchmarks.queueing import __main__ as command
from benchmarks.queueing.costs import Costs, Slowness, Window, Work, fit
from benchmarks.queueing.service import Run, Service
from benchmarks.queueing.simulation import Shape, Site
from benchmarks.queueing.validation import LOADS, Requests, Validation

COSTS = Costs(4e-4, 8e-5, 2e-3, 4e-5, 8e-4, 8e-4)
SITE = Site("made up", Shape(), COSTS, ((5, 6), (12, 14), (8, 9)), one_core=True)
REQUESTS = Requests(("a", "b", "c"), ("a!", "b!", "c!"), ("abc",))


def encoding(costs: Costs, work: Work) -> float:
    return costs.encode * work.encodes + costs.source_token * work.source_tokens


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
    return Window(1.0, work, requests, requests, encodes + steps, encodes, loop)


@pytest.mark.parametrize(("noise", "within"), [(0.0, 1e-6), (0.02, 0.2)])
def test_fit_recovers_known_costs(noise: float, within: float) -> None:
    chance = random.Random(1)
    windows = [window(COSTS, noise, chance) for _ in range(30)]
    found = fit(windows, windows)
    assert astuple(found.costs) == pytest.approx(astuple(COSTS), rel=within)
    assert found.error <= noise + 1e-9


def test_fitted_costs_are_not_negative() -> None:
    chance = random.Random(2)
    windows = [window(replace(COSTS, encode=-1e-6), 0.0, chance) for _ in range(12)]
    costs = fit(windows, windows).costs
    assert costs.encode == 0
    assert costs.source_token == pytest.approx(COSTS.source_token, rel=0.05)


def test_windows_that_do_not_determine_the_costs_are_refused() -> None:
    chance = random.Random(3)
    windows = [window(COSTS, 0.0, chance) for _ in range(4)]
    idle = Window(1.0, Work(0, 0, 0, 0), 0, 0, 0.0, 0.0, 0.0)
    for engine in (
        windows[:3],
        [*windows, idle],
        [*windows, replace(windows[0], encode_seconds=0.0)],
    ):
        with pytest.raises(ValueError, match="measure more"):
            fit(engine, windows)


def test_slowness_is_that_of_the_part_at_a_time() -> None:
    work = Work(100, 1000, 10, 100)
    usual = COSTS.of(work) + 5 * COSTS.receive + 3 * COSTS.answer
    parts = [
        Window(0.5, work, 5, 3, usual, 0.0, 0.0),
        Window(1.0, work, 5, 3, usual, 0.0, usual),
        Window(1.5, Work(0, 0, 0, 0), 0, 0, 0.01, 0.0, 0.0),
        Window(2.0, work, 5, 3, 3 * usual, 0.0, 0.0),
    ]
    slower = Slowness(COSTS, parts)
    assert [slower(at) for at in (-1, 0.5, 0.7, 1.2, 1.9, 99)] == pytest.approx([1, 1, 2, 3, 3, 3])
    with pytest.raises(ValueError, match="slow"):
        Slowness(COSTS, parts[2:3])


@dataclass(frozen=True, slots=True)
class SimulatedService(Service):
    """A service that is itself the simulation."""

    def lengths(self, bodies: Sequence[str]) -> tuple[tuple[int, int], ...]:
        return SITE.lengths

    def run(self, plan: Plan) -> Run:
        # Clients in turn act like a low rate here: costs are fitted to work and time only.
        plan = replace(plan, rate=plan.rate or 5.0 * plan.clients)
        lengths = SITE.lengths
        if plan.bodies == REQUESTS.short:
            lengths = tuple((source_length, 2) for source_length, _ in lengths)
        total = Work(0, 0, 0, 0)

        class CountingCosts(Costs):
            """Sums the work, as a service's metrics do."""

            def of(self, work: Work) -> float:
                nonlocal total
                total = Work(*map(sum, zip(astuple(total), astuple(work), strict=True)))
                return COSTS.of(work)

        site = replace(SITE, lengths=lengths, costs=CountingCosts(*astuple(COSTS)))
        replica = site.predict(arrivals(plan))
        requests = len(replica.latencies)
        loop = (COSTS.receive + COSTS.answer) * requests
        engine = replica.busy_seconds - loop
        seen = Window(0.0, total, requests, requests, engine, encoding(COSTS, total), loop)
        latencies = tuple(replica.latencies[number] for number in range(requests))
        return Run(plan, latencies, seen, (seen,))


def test_simulated_service_is_predicted_exactly() -> None:
    reports: list[str] = []
    validation = Validation(
        SimulatedService("nowhere", 0),
        REQUESTS,
        rounds=2,
        seconds=3,
        window_seconds=2,
        report=reports.append,
    )
    site, _, compared = validation.validate("made up", Shape())
    assert astuple(site.costs) == pytest.approx(astuple(COSTS), abs=1e-7)
    assert [each.load for each in compared] == list(LOADS)
    for each in compared:
        assert each.requests > 0
        for name, (low, high) in each.spread.items():
            assert each.ratio(name) == pytest.approx(1, abs=0.01)
            assert (low, high) == pytest.approx((1, 1), abs=0.01)
    assert any("70%" in line for line in reports)


def test_validate_command_writes_the_record_and_passes_its_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    simulated = nullcontext(SimulatedService("nowhere", 0))
    monkeypatch.setattr(command, "isolated_service", lambda bundle: simulated)
    monkeypatch.setattr(command, "requests_of", lambda bundle, data: REQUESTS)
    monkeypatch.setattr(command.machine, "wait_until_quiet", lambda seconds: True)
    path = tmp_path / "new" / "costs.json"
    options = ["--rounds", "1", "--seconds", "3", "--check"]
    assert command.main(["--record", str(path), "validate", *options]) == 0
    assert command.RECORD.validate_json(path.read_bytes()).lengths == SITE.lengths
    printed = capsys.readouterr().out
    assert all(f"\n{load:.0%} " in printed for load in LOADS)
