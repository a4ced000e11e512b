from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.engine.sampling import draw, uniform
from service.engine.types import MOST_SAMPLED, DecodingOptions

TOKENS = np.array([7, 4, 9, 5], np.int32)
PROBABILITIES = {7: 0.1, 4: 0.2, 9: 0.4, 5: 0.3}
LOG_PROBS = np.log(np.array(list(PROBABILITIES.values()), np.float32))

unit = st.floats(0, 1, exclude_max=True)


def sampling(
    sampling_topk: int = 0, sampling_topp: float = 1.0, sampling_temperature: float = 1.0
) -> DecodingOptions:
    return DecodingOptions(
        beam_size=1,
        sampling_topk=sampling_topk,
        sampling_topp=sampling_topp,
        sampling_temperature=sampling_temperature,
    )


def shares(options: DecodingOptions) -> dict[int, float]:
    """Share of [0, 1) that selects each token."""
    drawn = Counter(
        int(TOKENS[draw(TOKENS, LOG_PROBS, options, (i + 0.5) / 1000)]) for i in range(1000)
    )
    return {token: count / 1000 for token, count in drawn.items()}


def test_uniform_depends_only_on_seed_row_and_position() -> None:
    places = [(seed, row, at) for seed in (0, 1, 2**64 - 1) for row in (0, 1) for at in (0, 1, 255)]
    numbers = {place: uniform(*place) for place in places}
    assert len(set(numbers.values())) == len(places)
    assert all(0 <= number < 1 for number in numbers.values())
    assert all(uniform(*place) == numbers[place] for place in reversed(places))


def test_uniform_gives_the_same_numbers_on_every_machine() -> None:
    assert uniform(0, 0, 0) == 0.011546754286331562
    assert uniform(42, 3, 17) == 0.6293126727312429


def test_tokens_are_drawn_in_proportion_to_their_probability() -> None:
    assert shares(sampling()) == pytest.approx(PROBABILITIES, abs=0.0011)


def test_topk_draws_the_likeliest_tokens_in_proportion() -> None:
    assert shares(sampling(sampling_topk=2)) == pytest.approx({9: 4 / 7, 5: 3 / 7}, abs=0.0011)
    assert shares(sampling(sampling_topk=9)) == pytest.approx(PROBABILITIES, abs=0.0011)


@pytest.mark.parametrize("topk", [0, MOST_SAMPLED, 1_000_000])
def test_at_most_the_likeliest_256_tokens_are_drawn(topk: int) -> None:
    log_probs = -np.arange(2 * MOST_SAMPLED, dtype=np.float32) / 1000
    tokens = np.arange(2 * MOST_SAMPLED, dtype=np.int32)
    drawn = {draw(tokens, log_probs, sampling(topk), u) for u in np.linspace(0, 1, 9999)[:-1]}
    assert drawn == set(range(MOST_SAMPLED))


def test_topp_keeps_the_fewest_tokens_that_reach_the_share() -> None:
    assert shares(sampling(sampling_topp=0.69)) == pytest.approx({9: 4 / 7, 5: 3 / 7}, abs=0.0011)
    assert shares(sampling(sampling_topp=0.71)).keys() == {9, 5, 4}
    assert shares(sampling(sampling_topp=1e-9)) == {9: 1.0}


def test_topp_is_a_share_of_the_probability_left_by_topk() -> None:
    # The first two have 7/9 of the probability of the three.
    assert shares(sampling(sampling_topk=3, sampling_topp=0.75)).keys() == {9, 5}
    assert shares(sampling(sampling_topk=3, sampling_topp=0.8)).keys() == {9, 5, 4}


def test_temperature_sharpens_and_flattens() -> None:
    squares = {token: p**2 / 0.3 for token, p in PROBABILITIES.items()}
    assert shares(sampling(sampling_temperature=0.5)) == pytest.approx(squares, abs=0.0011)
    assert shares(sampling(sampling_temperature=1e-300)) == {9: 1.0}
    assert shares(sampling(sampling_temperature=1e9)) == pytest.approx(
        dict.fromkeys(PROBABILITIES, 0.25), abs=0.0011
    )


def test_ties_keep_the_lower_token_id() -> None:
    token_ids = np.array([8, 3, 5], np.int32)
    log_probs = np.full(3, -1.0, np.float32)
    assert draw(token_ids, log_probs, sampling(sampling_topp=0.2), 0.99) == 1


@given(
    st.lists(st.floats(-30, 0, width=32), min_size=1, max_size=8).flatmap(
        lambda log_probs: st.tuples(st.just(log_probs), st.permutations(range(len(log_probs))))
    ),
    st.integers(0, 9).filter(lambda topk: topk != 1),
    st.floats(0.01, 1),
    unit,
)
def test_a_draw_does_not_depend_on_the_order_of_candidates(
    shuffled: tuple[list[float], list[int]], topk: int, topp: float, u: float
) -> None:
    log_probs = np.array(shuffled[0], np.float32)
    order = np.array(shuffled[1], np.int32)
    options = sampling(topk, topp)
    straight = draw(np.arange(len(order), dtype=np.int32), log_probs, options, u)
    assert order[draw(order, log_probs[order], options, u)] == straight


@given(unit)
def test_tokens_with_log_probability_minus_infinity_are_never_drawn(u: float) -> None:
    log_probs = np.array([-np.inf, -80.0, -np.inf, -90.0], np.float32)
    assert draw(TOKENS, log_probs, sampling(sampling_temperature=1e3), u) in (1, 3)
    with pytest.raises(ValueError, match="nothing to draw from"):
        draw(TOKENS, np.full(4, -np.inf, np.float32), sampling(), u)
