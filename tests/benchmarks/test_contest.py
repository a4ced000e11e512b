"""Tests of the engine comparison: ratios, selection of pairs, cells."""

from __future__ import annotations

import pytest

from benchmarks import online
from benchmarks.contest import LengthsDiffer, Pair, check_lengths, least_disturbed
from benchmarks.engines import settings
from benchmarks.offline import all_cells
from benchmarks.online import Level, find_highest_rate, highest_rate
from benchmarks.worker import Done
from benchmarks.workloads import Workload

EOS = 3


def done(seconds: float, others_cores: float | None = 0.0, tokens: int = 9) -> Done:
    return Done(((tuple(range(4, 4 + tokens)),),), seconds, others_cores, None)


def test_ratio_is_of_tokens_per_second_and_wrong_lengths_name_the_engine() -> None:
    assert Pair(ours=done(1.0), theirs=done(2.0)).ratio == pytest.approx(2.0)
    assert Pair(ours=done(1.0, tokens=4), theirs=done(2.0)).ratio == pytest.approx(1.0)
    work = Workload("fixed-1", (((5, 6, EOS),),))
    check_lengths("ours", work, done(1.0, tokens=2))
    with pytest.raises(LengthsDiffer, match=r"theirs .*2 .*3 .*fixed-1"):
        check_lengths("theirs", work, done(1.0, tokens=1))
    names = [cell.name for cell in all_cells()]
    assert len(names) == len(set(names))
    assert {"fixed-1/int8/4", "newstest/fp32/1", "multi30k/int8/4"} <= set(names)


def test_pairs_are_selected_by_disturbance_and_not_by_speed() -> None:
    fast_but_disturbed = Pair(done(1.0, 0.5), done(9.0))
    slow_and_quiet = Pair(done(2.0, 0.01), done(2.0))
    slower_and_quiet = Pair(done(3.0), done(2.0, 0.02))
    measured = [fast_but_disturbed, slow_and_quiet, slower_and_quiet]
    assert least_disturbed(measured, 2) == [slow_and_quiet, slower_and_quiet]


def test_the_highest_rate_is_found_between_those_that_pass_and_those_that_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def measure(url: str, subject: object, rate: float, seconds: float) -> Level:
        return Level(rate, 100, 0.1, 0.5 if rate < 33 else 1.5)

    monkeypatch.setattr(online, "measure_rate", measure)
    monkeypatch.setattr(online, "_settle", lambda *_: None)
    for start in (4.0, 100.0):
        levels = find_highest_rate("", None, start, 8.0)  # type: ignore[arg-type]
        assert highest_rate(levels) == pytest.approx(33, rel=0.1)


@pytest.mark.parametrize(
    ("flags", "sets"),
    [({"avx2", "avx512f"}, {"AVX512"}), ({"avx2", "fma"}, {"AVX2"}), ({"asimddp"}, set())],
)
def test_peer_is_tried_with_the_instruction_sets_of_the_processor(
    flags: set[str], sets: set[str]
) -> None:
    tried = settings(flags)
    assert tried["default"] == {}
    assert {each["CT2_FORCE_CPU_ISA"] for each in tried.values() if each} == sets
    assert {each["CT2_USE_MKL"] for each in tried.values() if each} == (
        {"0", "1"} if sets else set()
    )
