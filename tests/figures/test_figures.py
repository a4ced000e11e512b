from __future__ import annotations

import asyncio
import io
import struct
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine.errors import BackendFailed
from service.engine.search_tree import ROOT, Fate, RankedCandidate, SearchTree
from service.figures.arrays import as_npy
from service.figures.heatmap import draw
from service.figures.labels import MOST_PIXELS
from service.figures.painter import MOST_WAITING, Painter
from service.figures.tree import MOST_DRAWN
from service.figures.tree import draw as draw_tree
from service.inspection.attention import Kind, Maps
from service.inspection.recorded_search import RecordedSearch
from service.translation.errors import Overloaded
from tests.support.waiting import cancelled, until

PIECES = ("▁Zwei", "▁Männer", "ball", "$x^", "日本", "\n", "▁" + "x" * 40, "\ud800", "اللغة", "_")


def make(
    layers: int = 1,
    heads: int = 1,
    rows: int = 5,
    columns: int = 4,
    kind: Kind = "cross",
    seed: int = 0,
) -> Maps:
    weights = np.random.default_rng(seed).random((layers, heads, rows, columns), np.float32) + 0.01
    weights /= weights.sum(-1, keepdims=True)
    return Maps(
        "multi30k-de-en",
        kind,
        tuple(PIECES[i % len(PIECES)] for i in range(rows)),
        tuple(PIECES[i % len(PIECES)] for i in range(columns)),
        tuple(range(layers)),
        tuple(range(heads)),
        weights,
    )


def size_of(picture: bytes) -> tuple[int, int]:
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", picture[16:24])
    return int(width), int(height)


def test_a_sheet_has_a_panel_for_every_head() -> None:
    alone = size_of(draw(make(heads=1, layers=1)))
    sheet = size_of(draw(make(heads=4)))
    layers = size_of(draw(make(layers=3, heads=4)))
    assert sheet[0] > 2 * alone[0]
    assert layers[0] == sheet[0] and layers[1] > sheet[1]


def test_other_kinds_weights_and_means_give_other_pictures() -> None:
    maps = make()
    mean = Maps(maps.model, "cross", maps.rows, maps.columns, "mean", "mean", maps.weights_LHRC)
    kinds: tuple[Kind, ...] = ("encoder", "decoder")
    others = [make(kind=kind) for kind in kinds]
    assert len({draw(each) for each in (maps, mean, make(seed=1), *others)}) == 5


def test_no_picture_is_larger_than_its_bound() -> None:
    width, height = size_of(draw(make(layers=2, heads=16, rows=192, columns=97)))
    assert max(width, height) <= MOST_PIXELS


@settings(max_examples=15)
@given(
    text=st.text(min_size=1, max_size=30),
    rows=st.integers(1, 40),
    columns=st.integers(1, 40),
    heads=st.integers(1, 5),
)
def test_any_label_text_is_drawn_without_a_warning(
    text: str, rows: int, columns: int, heads: int
) -> None:
    maps = make(heads=heads, rows=rows, columns=columns)
    labelled = Maps(
        text, "cross", (text,) * rows, maps.columns, maps.layers, maps.heads, maps.weights_LHRC
    )
    assert max(size_of(draw(labelled))) <= MOST_PIXELS


def test_a_file_for_numpy_holds_layers_heads_rows_and_columns() -> None:
    maps = make(2, 3, 5, 4)
    loaded = np.load(io.BytesIO(as_npy(maps)), allow_pickle=False)
    assert loaded.dtype == np.float32
    np.testing.assert_array_equal(loaded, maps.weights_LHRC)


SVG = "{http://www.w3.org/2000/svg}"


def search(steps: int = 3, ranks: int = 4, pieces: tuple[str, ...] = PIECES) -> RecordedSearch:
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
    assert texts_of(draw_tree(search(steps=0), "svg"))
    texts = texts_of(draw_tree(search(), "svg"))
    assert texts.count("▁Zwei") == texts.count("▁Männer") == 3
    assert texts.count("−0.50") == texts.count("−1.50") == 3
    assert any("blue: the translation" in text for text in texts)


def test_same_search_gives_the_same_picture_and_another_another() -> None:
    assert draw_tree(search(), "svg") == draw_tree(search(), "svg")
    assert draw_tree(search(), "svg") != draw_tree(search(ranks=5), "svg")
    pictures = [draw_tree(search(steps=steps), "png") for steps in (8, 20, 60)]
    assert all(one < other for one, other in pairwise(map(size_of, pictures)))


def test_longest_search_gives_a_picture_of_bounded_size() -> None:
    longest = search(steps=256, ranks=64)
    assert max(size_of(draw_tree(longest, "png"))) <= MOST_PIXELS
    svg = draw_tree(longest, "svg")
    assert svg.count(b"<path") < 4 * MOST_DRAWN
    assert len(svg) < 4 << 20


@pytest.mark.parametrize("format", ["svg", "png"])
@settings(max_examples=15, deadline=None)
@given(text=st.text(min_size=1, max_size=40))
def test_any_piece_is_drawn_without_a_warning(format: str, text: str) -> None:
    picture = draw_tree(search(pieces=(text,)), "svg" if format == "svg" else "png")
    if format == "svg":
        assert ElementTree.fromstring(picture) is not None


@pytest.fixture
async def painter() -> AsyncIterator[Painter]:
    painter = Painter()
    yield painter
    await painter.close()
    assert painter._helpers.processes == []


async def test_pictures_are_pngs_drawn_by_one_process(painter: Painter) -> None:
    first = await painter.heatmap(make())
    process = painter._helpers.processes
    assert first.startswith(b"\x89PNG")
    assert await painter.heatmap(make()) == first
    assert painter._helpers.processes == process


async def test_more_than_a_few_at_once_are_refused(painter: Painter) -> None:
    drawn = [asyncio.create_task(painter.heatmap(make())) for _ in range(MOST_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await painter.heatmap(make())
    assert len(set(await asyncio.gather(*drawn))) == 1


async def test_another_caller_is_drawn_after_one_picture_of_the_first(painter: Painter) -> None:
    done: list[str] = []

    async def paint(caller: str) -> None:
        await painter.heatmap(make(), caller)
        done.append(caller)

    drawn = [asyncio.create_task(paint("a")) for _ in range(MOST_WAITING)]
    await asyncio.sleep(0)
    await asyncio.gather(*drawn, asyncio.create_task(paint("b")))
    assert done.index("b") == 1


async def test_next_picture_is_drawn_after_a_failed_and_a_cancelled_one(painter: Painter) -> None:
    impossible = replace(make(), weights_LHRC=np.zeros((0, 0, 0, 0), np.float32), rows=())
    with pytest.raises(BackendFailed):
        await painter.heatmap(impossible)
    abandoned = asyncio.create_task(painter.heatmap(make()))
    await until(lambda: painter._helpers.processes, 0)
    await cancelled(abandoned)
    assert (await painter.heatmap(make())).startswith(b"\x89PNG")
