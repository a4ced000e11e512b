from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiny_training import tiny_recipe, with_optimisation
from training.loop.schedule import (
    Schedule,
    constant,
    cosine,
    inverse_sqrt,
    linear,
    noam,
    schedule_of,
    stable_steps,
    wsd,
)

PEAK = 1e-3


def through_a_peak(warmup: int, steps: int) -> dict[str, Schedule]:
    return {
        "inverse_sqrt": inverse_sqrt(PEAK, warmup),
        "linear": linear(PEAK, warmup, steps),
        "cosine": cosine(PEAK, warmup, steps),
        "constant": constant(PEAK, warmup),
        "wsd": wsd(PEAK, warmup, (steps - warmup) // 2, steps),
    }


@pytest.mark.parametrize(
    ("step", "rate"),
    [
        (1, 512**-0.5 * 4000**-1.5),
        (2000, 512**-0.5 * 2000 * 4000**-1.5),
        (4000, 512**-0.5 * 4000**-0.5),
        (100_000, 512**-0.5 * 100_000**-0.5),
    ],
)
def test_noam_is_equation_three_of_the_paper(step: int, rate: float) -> None:
    assert noam(width=512, warmup=4000)(step) == pytest.approx(rate)


def test_inverse_sqrt_is_noam_through_another_peak() -> None:
    ours, papers = inverse_sqrt(PEAK, 50), noam(512, 50)
    for step in (1, 20, 50, 51, 1000):
        assert ours(step) / PEAK == pytest.approx(papers(step) / papers(50))


@given(warmup=st.integers(1, 200), further=st.integers(1, 300))
def test_rates_rise_to_the_peak_and_then_never_rise(warmup: int, further: int) -> None:
    steps = warmup + further
    for name, schedule in through_a_peak(warmup, steps).items():
        rates = [schedule(step) for step in range(1, steps + 1)]
        assert rates[warmup - 1] == pytest.approx(PEAK), name
        assert all(rate > 0 for rate in rates), name
        climb, fall = rates[:warmup], rates[warmup - 1 :]
        assert all(low < high for low, high in itertools.pairwise(climb)), name
        assert all(high >= low * (1 - 1e-12) for high, low in itertools.pairwise(fall)), name
        assert rates[0] == pytest.approx(PEAK / warmup), name


def test_final_rate_of_each_schedule() -> None:
    ends = {name: schedule(1000) for name, schedule in through_a_peak(100, 1000).items()}
    assert ends["constant"] == PEAK
    # The decay of 450 steps begins at 550.
    decay = through_a_peak(100, 1000)["wsd"]
    assert {decay(step) for step in range(100, 551)} == {PEAK} and 0 < ends["wsd"] < 0.03 * PEAK
    without_warmup = schedule_of(with_optimisation(tiny_recipe(), schedule="constant", warmup=0))
    assert without_warmup(1) == tiny_recipe().optimisation.peak_learning_rate
    assert ends["inverse_sqrt"] == pytest.approx(PEAK * (100 / 1000) ** 0.5)
    assert 0 < ends["linear"] < PEAK / 800
    assert 0 < ends["cosine"] < PEAK / 10_000
    assert linear(PEAK, 100, 1000)(1001) == 0.0
    assert cosine(PEAK, 100, 1000)(1001) == pytest.approx(0.0)
    assert linear(PEAK, 1, 999)(500) == pytest.approx(PEAK / 2, rel=0.01)
    assert cosine(PEAK, 1, 999)(500) == pytest.approx(PEAK / 2, rel=0.01)


@pytest.mark.parametrize("name", ["noam", "inverse_sqrt", "linear", "cosine", "constant"])
def test_a_recipe_names_its_schedule(name: str) -> None:
    given = None if name == "noam" else PEAK
    recipe = with_optimisation(tiny_recipe(), schedule=name, warmup=4, peak_learning_rate=given)
    steps, peak = recipe.budget.steps, PEAK
    expected = {
        "noam": noam(16, 4),
        "inverse_sqrt": inverse_sqrt(peak, 4),
        "linear": linear(peak, 4, steps),
        "cosine": cosine(peak, 4, steps),
        "constant": constant(peak, 4),
    }[name]
    found = schedule_of(recipe)
    assert [found(s) for s in range(1, 9)] == [expected(s) for s in range(1, 9)]


def test_stable_steps_are_those_before_the_decay() -> None:
    recipe = with_optimisation(
        tiny_recipe(), schedule="wsd", peak_learning_rate=PEAK, decay=1, warmup=2
    )
    assert stable_steps(recipe) == recipe.budget.steps - 1
    assert stable_steps(tiny_recipe()) == 0
