"""Serialises attention maps as a NumPy file."""

from __future__ import annotations

import io

import numpy as np

from service.inspection.attention import Maps


def as_npy(maps: Maps) -> bytes:
    """A ``.npy`` file of the float32 array ``[layers, heads, rows, columns]``."""
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(maps.weights_LHRC), allow_pickle=False)
    return file.getvalue()
