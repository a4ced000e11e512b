from __future__ import annotations

import io

import numpy as np

from service.figures.arrays import as_npy
from tests.figures.test_heatmap import make


def test_a_file_for_numpy_holds_layers_heads_rows_and_columns() -> None:
    maps = make(2, 3, 5, 4)
    loaded = np.load(io.BytesIO(as_npy(maps)), allow_pickle=False)
    assert loaded.dtype == np.float32
    np.testing.assert_array_equal(loaded, maps.weights_LHRC)
