from __future__ import annotations

from collections.abc import Sequence

import pytest

from training.data.corpus import CorpusError, Pair
from training.data.plausibility import doubts


def lines(language: str, count: int = 3_000) -> list[str]:
    """Sentences whose lengths have no order."""
    start, words = {
        "de": ("der Mann sieht heute", ["die alte Stadt", "und geht nach Hause", "am Abend"]),
        "en": ("the man sees today", ["the old town", "and goes back home", "in the evening"]),
    }[language]
    return [
        " ".join([start, *(words[(i * 7 + k) % 3] for k in range(i * i * 31 % 17))])
        for i in range(count)
    ]


def found(source: Sequence[str], target: Sequence[str]) -> list[str]:
    return doubts("mine", map(Pair, source, target), "de", "en")


def test_right_short_and_uniform_corpora_raise_no_doubt() -> None:
    german, english = lines("de"), lines("en")
    assert found(german, english) == []
    assert found(english[:30], german[:30]) == []
    assert found(["1 2 3 4"] * 500, ["4 3 2 1"] * 500) == []


def test_swapped_sides_are_refused() -> None:
    with pytest.raises(CorpusError):
        found(lines("en"), lines("de"))


def test_shifted_lines_are_found_where_they_are() -> None:
    german, english = lines("de"), lines("en")
    for source, target, where in (
        (german[:-1], english[1:], "1 above"),
        (german[2:], english[:-2], "2 below"),
    ):
        doubts = found(source, target)
        assert len(doubts) == 8
        assert all(f"fits the target {where}, not" in doubt for doubt in doubts)
    by_length = sorted(zip(german, english, strict=True), key=lambda pair: len(pair[1]))
    marked = [
        tuple(f"{side} {i % 10}{'?' if i % 3 else '.'}" for side in pair)
        for i, pair in enumerate(by_length)
    ]
    sides = [list(side) for side in zip(*marked, strict=True)]
    assert found(*sides) == []
    assert len(found(sides[0][1:], sides[1][:-1])) == 8
    lacking = [*german[:1_500], *german[1_501:], "Ende"]
    assert len(found(lacking, english)) == 4
    short = [*german[:100], *german[101:200]]
    (doubt,) = found(short, english[:199])
    assert "lines 101 to 196 of mine" in doubt


def test_quoted_sentences_fit_by_the_mark_before_the_quotation_mark() -> None:
    marks = ["?" if i * i * 31 % 7 > 3 else "!" for i in range(500)]
    german, english = ([f"{o}Komm{mark}{c}" for mark in marks] for o, c in ("„“", '""'))
    assert found(german, english) == []
    assert all("1 above" in doubt for doubt in found(german[:-1], english[1:]))
    assert len(found(german[:-1], english[1:])) == 5
