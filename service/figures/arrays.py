"""Serialises attention maps as a NumPy file or as JSON."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from service.translation.attention import Maps, numbered

_DECIMALS = 6


def as_npy(maps: Maps) -> bytes:
    """A ``.npy`` file of the float32 array ``[layers, heads, rows, columns]``."""
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(maps.weights_LHRC), allow_pickle=False)
    return file.getvalue()


def as_json(maps: Maps, **beside: Any) -> bytes:
    """Labels and weights as a JSON object, with the fields of ``beside``.

    Weights have six decimals, so rows sum to 1 within rounding. All maps of a long sentence are
    hundreds of thousands of numbers. Rows are serialised one by one, since ``json.dumps`` holds the
    interpreter lock until it returns.
    """
    labels = {
        "model": maps.model,
        "kind": maps.kind,
        "rows": maps.rows,
        "columns": maps.columns,
        "layers": maps.layers,
        "heads": maps.heads,
    }
    text = f"{_text(beside | labels)[:-1]},{_text('maps')}:[{','.join(_each_map(maps))}]}}"
    return text.encode("utf-8", "backslashreplace")


def _each_map(maps: Maps) -> Iterator[str]:
    for layer, of_layer_HRC in zip(numbered(maps.layers), maps.weights_LHRC, strict=True):
        for head, weights_RC in zip(numbered(maps.heads), of_layer_HRC, strict=True):
            rows = ",".join(
                _text(row_C.astype(np.float64).round(_DECIMALS).tolist()) for row_C in weights_RC
            )
            yield f"{_text({'layer': layer, 'head': head})[:-1]},{_text('weights')}:[{rows}]}}"


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
