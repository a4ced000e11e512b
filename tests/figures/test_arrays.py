from __future__ import annotations

import io
import json

import numpy as np

from service.figures.arrays import as_json, as_npy
from tests.figures.test_heatmap import make


def test_a_file_for_numpy_holds_layers_heads_rows_and_columns() -> None:
    maps = make(2, 3, 5, 4)
    loaded = np.load(io.BytesIO(as_npy(maps)), allow_pickle=False)
    assert loaded.dtype == np.float32
    np.testing.assert_array_equal(loaded, maps.weights_LHRC)


def test_a_document_names_every_map_by_layer_and_head() -> None:
    maps = make(2, 3, 5, 4)
    document = json.loads(as_json(maps))
    assert (document["layers"], document["heads"]) == ([0, 1], [0, 1, 2])
    named = [(each["layer"], each["head"]) for each in document["maps"]]
    assert named == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    weights = np.array([each["weights"] for each in document["maps"]])
    assert weights.shape == (6, len(document["rows"]), len(document["columns"]))
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)


def test_json_has_additional_fields_and_unusual_pieces() -> None:
    maps = make(1, 1, 10, 10)
    document = json.loads(as_json(maps, alignment={"links": []}))
    assert document["alignment"] == {"links": []}
    assert document["rows"] == list(maps.rows)
