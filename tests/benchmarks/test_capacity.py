from __future__ import annotations

import pytest

from benchmarks.capacity import Capacity, Costs, Load, lines


@pytest.mark.parametrize(
    ("costs", "cores", "rate"),
    [
        (Costs(loop=0.004, others=0.001, busy=0.002), 2, 250),
        (Costs(loop=0.001, others=0.0, busy=0.005), 2, 200),
        (Costs(loop=0.002, others=0.008, busy=0.004), 1, 100),
    ],
    ids=["event loop", "engine", "processor"],
)
def test_capacity_is_the_rate_of_what_is_used_up_first(
    costs: Costs, cores: int, rate: float
) -> None:
    assert costs.capacity(cores) == pytest.approx(rate)


def test_predictions_are_printed_beside_what_was_measured() -> None:
    costs = Costs(loop=0.001, others=0.008, busy=0.004)
    measured = Capacity(costs, 1, 98.0, (Load(rate=40, latency=0.25, sentences=9.5),))
    _, rates, _, load = lines(measured)
    assert rates == "requests/s: predicted 111.1, 64 clients 98.0"
    assert load.split() == ["40.0", "250", "10.0", "9.5"]
