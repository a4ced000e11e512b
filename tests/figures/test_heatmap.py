from __future__ import annotations

import io
import json
import struct

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from service.figures.arrays import as_json, as_npy
from service.figures.heatmap import draw
from service.figures.labels import MOST_PIXELS
from service.translation.attention import Kind, Maps

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


def test_a_document_names_every_map_by_layer_and_head() -> None:
    maps = make(2, 3, 10, 10)
    document = json.loads(as_json(maps, alignment={"links": []}))
    assert document["alignment"] == {"links": []}
    assert document["rows"] == list(maps.rows)
    assert (document["layers"], document["heads"]) == ([0, 1], [0, 1, 2])
    named = [(each["layer"], each["head"]) for each in document["maps"]]
    assert named == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    weights = np.array([each["weights"] for each in document["maps"]])
    assert weights.shape == (6, len(document["rows"]), len(document["columns"]))
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
