"""Tests of the pictures of searches."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine.search_tree import ROOT, Fate, RankedCandidate, SearchTree
from service.figures.labels import MOST_PIXELS
from service.figures.tree import MOST_DRAWN, draw
from service.translation.recorded_search import RecordedSearch
from tests.figures.test_heatmap import PIECES, size_of

SVG = "{http://www.w3.org/2000/svg}"


def make(steps: int = 3, ranks: int = 4, pieces: tuple[str, ...] = PIECES) -> RecordedSearch:
    """A search whose first candidate always goes on, and whose others are of every fate."""
    fates: tuple[Fate, ...] = ("kept", "pruned", "dropped")
    candidates = [
        [
            RankedCandidate(
                1 + step * ranks + rank,
                ROOT if not step else 1 + (step - 1) * ranks,
                rank,
                -0.5,
                -0.5 * (step + 1),
                -0.5 - rank,
                "finished" if step == steps - 1 and not rank else fates[rank % 3],
            )
            for rank in range(ranks)
        ]
        for step in range(steps)
    ]
    tree = SearchTree(tuple(map(tuple, candidates)))
    named = {rank: pieces[rank % len(pieces)] for rank in range(ranks)}
    winner = candidates[-1][0].id if candidates else ROOT
    return RecordedSearch("general-de-en", pieces, tree, named, winner, True)


def texts_of(svg: bytes) -> list[str]:
    return [str(each.text) for each in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_svg_has_the_piece_and_the_score_of_each_candidate() -> None:
    assert texts_of(draw(make(steps=0), "svg"))
    texts = texts_of(draw(make(), "svg"))
    assert texts.count("▁Zwei") == texts.count("▁Männer") == 3
    assert texts.count("−0.50") == texts.count("−1.50") == 3
    assert any("blue: the translation" in text for text in texts)


def test_same_search_gives_the_same_picture_and_another_another() -> None:
    assert draw(make(), "svg") == draw(make(), "svg")
    assert draw(make(), "svg") != draw(make(ranks=5), "svg")
    pictures = [draw(make(steps=steps), "png") for steps in (8, 20, 60)]
    assert all(one < other for one, other in pairwise(map(size_of, pictures)))


def test_longest_search_gives_a_picture_of_bounded_size() -> None:
    longest = make(steps=256, ranks=64)
    assert max(size_of(draw(longest, "png"))) <= MOST_PIXELS
    svg = draw(longest, "svg")
    assert svg.count(b"<path") < 4 * MOST_DRAWN
    assert len(svg) < 4 << 20


@pytest.mark.parametrize("format", ["svg", "png"])
@settings(max_examples=15, deadline=None)
@given(text=st.text(min_size=1, max_size=40))
def test_any_piece_is_drawn_without_a_warning(format: str, text: str) -> None:
    picture = draw(make(pieces=(text,)), "svg" if format == "svg" else "png")
    if format == "svg":
        assert ElementTree.fromstring(picture) is not None
