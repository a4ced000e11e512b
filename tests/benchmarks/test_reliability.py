from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.reliability import BINS, HEADER, Reliability, judged, reliability_diagram
from training.figures.style import write


def test_repeated_word_is_right_as_often_as_the_reference_has_it() -> None:
    found = [
        {"text": text, "probability": probability}
        for text, probability in (
            ("the", 0.9),
            ("dog", 0.5),
            ("the", 0.4),
            ("The", 0.3),
            (".", 0.2),
        )
    ]
    assert list(judged(found, "The old dog saw the cat.")) == [
        (0.9, True),
        (0.5, True),
        (0.4, False),
        (0.3, True),
    ]


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=40))
def test_calibration_error_is_the_weighted_distance_of_the_bins(
    words: list[tuple[float, bool]],
) -> None:
    found = Reliability.of("de-en", 1, words)
    expected = 0.0
    for number in range(BINS):
        inside = [w for w in words if min(int(w[0] * BINS), BINS - 1) == number]
        if inside:
            mean, share = np.mean(inside, axis=0)
            expected += len(inside) / len(words) * abs(mean - share)
    assert found.words == len(words)
    assert found.calibration_error == pytest.approx(expected, abs=1e-9)
    assert found.row().count("|") == HEADER.splitlines()[0].count("|")


def test_calibrated_words_have_no_error_and_are_drawn(tmp_path: Path) -> None:
    words = [(0.25, True), *[(0.25, False)] * 3, (1.0, True)]
    found = Reliability.of("de-en", 2, words)
    assert found.calibration_error == 0
    write(reliability_diagram({"corpus/test": [found]}), tmp_path / "reliability.png")
    assert (tmp_path / "reliability.png").stat().st_size > 1_000
