from __future__ import annotations

import numpy as np
import pytest

from service.engine.beam import Beam
from service.engine.types import DecodingOptions, FinishReason
from tests.engine.toy import BOS, EOS

A, B, C, D = 3, 4, 5, 6


def advance(beam: Beam, *rows: dict[int, float]) -> None:
    """Show each live row its candidates, best first."""
    beam.advance(
        np.array([list(row) for row in rows], np.int32),
        np.array([list(row.values()) for row in rows], np.float32),
    )


def live(beam: Beam) -> list[tuple[int, int]]:
    return [(parent, node.token_id) for parent, node in zip(beam.parents, beam.live, strict=True)]


def make_beam(**options: float) -> Beam:
    return Beam(DecodingOptions(**options), BOS, EOS)  # type: ignore[arg-type]


def test_candidates_of_all_rows_compete() -> None:
    beam = make_beam(beam_size=2)
    assert beam.num_candidates == 4
    advance(beam, {A: -1, B: -1.5, C: -2, D: -3})
    assert live(beam) == [(0, A), (0, B)]
    advance(beam, {A: -2, B: -3, C: -4, D: -5}, {C: -0.5, D: -1, A: -5, B: -6})
    assert live(beam) == [(1, C), (1, D)]


def test_an_ending_in_the_beam_is_finished_and_its_row_refilled() -> None:
    beam = make_beam(beam_size=2)
    advance(beam, {EOS: -1, A: -2, B: -3, C: -4})
    assert live(beam) == [(0, A), (0, B)]
    assert len(beam.finished) == 1
    assert not beam.done


def test_an_ending_ranked_below_the_beam_is_dropped() -> None:
    beam = make_beam(beam_size=2)
    advance(beam, {A: -1, B: -2, EOS: -3, C: -4})
    assert live(beam) == [(0, A), (0, B)]
    assert beam.finished == []


def test_the_search_stops_when_as_many_have_ended_as_the_beam_is_wide() -> None:
    beam = make_beam(beam_size=2, length_penalty=1)
    advance(beam, {EOS: -1, A: -1.1, B: -3, C: -4})
    assert not beam.done
    advance(beam, {EOS: -0.1, A: -5, B: -6, C: -7}, {A: -5, B: -6, C: -7, D: -8})
    assert beam.done
    decoded = beam.result()
    assert decoded.hypotheses[0].token_ids == (A,)
    assert decoded.hypotheses[0].score == pytest.approx(-1.2 / 2)
    assert decoded.finish_reason is FinishReason.COMPLETE


def test_without_a_length_penalty_the_search_stops_once_the_likeliest_has_ended() -> None:
    beam = make_beam(beam_size=2, length_penalty=0)
    advance(beam, {A: -1, EOS: -2, B: -3, C: -4})
    assert not beam.done
    advance(beam, {EOS: -0.1, A: -5, B: -6, C: -7}, {A: -5, B: -6, C: -7, D: -8})
    assert beam.done

    several = make_beam(beam_size=2, num_hypotheses=2, length_penalty=0)
    advance(several, {EOS: -1, A: -2, B: -3, C: -4})
    assert not several.done


def test_at_the_limit_every_live_prefix_is_a_hypothesis_and_says_so() -> None:
    beam = make_beam(beam_size=3, num_hypotheses=3, max_decoding_length=1)
    advance(beam, {A: -1, EOS: -2, B: -3, C: -4, D: -5})
    assert beam.done
    decoded = beam.result()
    assert [h.token_ids for h in decoded.hypotheses] == [(A,), (), (B,)]
    assert decoded.finish_reason is FinishReason.LENGTH


def test_a_complete_hypothesis_that_wins_at_the_limit_is_complete() -> None:
    beam = make_beam(beam_size=2, max_decoding_length=1)
    advance(beam, {EOS: -1, A: -2, B: -3, C: -4})
    assert beam.result().finish_reason is FinishReason.COMPLETE


def test_a_beam_of_one_is_greedy() -> None:
    beam = make_beam(beam_size=1)
    advance(beam, {A: -1, EOS: -1.01})
    assert live(beam) == [(0, A)]
    assert beam.finished == []
    advance(beam, {EOS: -0.1, B: -0.2})
    assert beam.done
    assert beam.result().hypotheses[0].token_ids == (A,)


def test_equal_sums_rank_by_row_and_then_by_candidate() -> None:
    beam = make_beam(beam_size=2)
    advance(beam, {A: -1, B: -1, C: -1, D: -1})
    assert live(beam) == [(0, A), (0, B)]
    advance(beam, {C: -1, D: -1, A: -2, B: -2}, {A: -1, B: -1, C: -2, D: -2})
    assert live(beam) == [(0, C), (0, D)]


def test_sums_are_float32() -> None:
    beam = make_beam(beam_size=1)
    advance(beam, {A: -0.1, B: -3})
    advance(beam, {A: -0.2, B: -3})
    assert beam.live[0].log_prob == float(np.float32(-0.1) + np.float32(-0.2))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"beam_size": 0}, "beam_size"),
        ({"beam_size": 2, "num_hypotheses": 3}, "num_hypotheses"),
        ({"num_hypotheses": 0}, "num_hypotheses"),
        ({"length_penalty": float("nan")}, "length_penalty"),
        ({"length_penalty": 1000.0}, "length_penalty"),
        ({"max_decoding_length": 0}, "max_decoding_length"),
    ],
)
def test_impossible_options_are_refused_by_name(options: dict[str, float], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        DecodingOptions(**options)  # type: ignore[arg-type]
