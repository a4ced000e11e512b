"""Tests of the number of services that a load requires."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.queueing import fleet
from benchmarks.queueing.__main__ import RECORD, main
from benchmarks.queueing.costs import Costs
from benchmarks.queueing.fleet import ROUTINGS, Impossible, Routing, assumed_gpu, needed, simulate
from benchmarks.queueing.simulation import Shape, Site

COSTS = Costs(4e-3, 8e-4, 2e-2, 4e-4, 8e-3, 8e-3)
SITE = Site(
    "a made-up machine", Shape(slots=8, beam_size=2), COSTS, ((5, 3), (9, 4), (3, 1)), one_core=True
)


@pytest.mark.parametrize("routing", ROUTINGS)
def test_simulation_is_deterministic(routing: Routing) -> None:
    rate = 0.7 * 4 * SITE.capacity
    one, other = (simulate(SITE, 4, rate, routing, 800) for _ in range(2))
    assert one == other
    assert 0 < one.p50 <= one.p99


def test_routing_by_load_is_faster_than_random_routing() -> None:
    rate = 0.8 * 16 * SITE.capacity
    p99 = {routing: simulate(SITE, 16, rate, routing, 6000).p99 for routing in ROUTINGS}
    assert p99["least"] <= p99["two"] < p99["random"]


def test_more_services_at_the_same_load_each_are_no_slower() -> None:
    p99 = [simulate(SITE, count, 0.8 * count * SITE.capacity, "two", 5000).p99 for count in (1, 16)]
    assert p99[1] < p99[0]


@pytest.fixture
def few_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "LEAST_REQUESTS", 1000)


@pytest.mark.usefixtures("few_requests")
def test_more_load_never_needs_fewer_services() -> None:
    counts = [
        needed(SITE, share * SITE.capacity, 4 * SITE.alone_p99, "random").replicas
        for share in (0.1, 0.9, 2.5, 12)
    ]
    assert counts == sorted(counts)
    assert counts[0] == 1
    assert counts[-1] >= 12 / fleet.MOST_LOAD


@pytest.mark.usefixtures("few_requests")
def test_a_stricter_objective_never_needs_fewer_services() -> None:
    rate = 6 * SITE.capacity
    counts = [needed(SITE, rate, slack * SITE.alone_p99, "random").replicas for slack in (10, 4, 2)]
    assert counts == sorted(counts)


def test_unreachable_objective_is_reported() -> None:
    with pytest.raises(Impossible):
        needed(SITE, 1.0, 1e-6, "two")


def test_single_sentence_requests_saturate_an_event_loop_before_a_gpu() -> None:
    site = assumed_gpu(SITE)
    assert site.capacity == pytest.approx(1 / (COSTS.receive + COSTS.answer), rel=0.02)


@pytest.mark.usefixtures("few_requests")
def test_a_plan_is_printed_from_a_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "costs.json"
    path.write_bytes(RECORD.dump_json(SITE))
    assert RECORD.validate_json(path.read_bytes()) == SITE
    assert main(["--record", str(path), "plan", "--rate", "5", "--p99", "1"]) == 0
    printed = capsys.readouterr().out
    assert SITE.about in printed
    assert all(f"\n{routing}" in printed for routing in ROUTINGS)


def test_missing_or_invalid_record_fails_and_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "costs.json"
    assert main(["--record", str(path), "plan"]) == 2
    assert str(path) in capsys.readouterr().err
    path.write_text('{"about": "x"}', encoding="utf-8")
    assert main(["--record", str(path), "plan"]) == 2
    assert "costs" in capsys.readouterr().err
