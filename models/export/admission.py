"""ONNX graph that encodes sentences into slots on a device: writes keys, values and zeros.

It is the encoder, and then a write to each array of both pools: keys and values of the source, and
zeros to the decoder's own keys and values, or to the states of its SSRU. A bundle has no such
graph: the service makes it of the bundle's encoder. Shapes: models/bundle/graphs.py, memory.py.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx
from onnx.compose import add_prefix_graph

from models.bundle.graphs import Signature, TensorType, element_type, signature
from models.bundle.manifest import Dimensions, Precision
from models.export.builder import GraphBuilder, WeightFile


def admission_signature(dimensions: Dimensions, precision: Precision) -> Signature:
    """The signature of ``admission_graph``.

    ``slots`` are those of the sentences. A pool is ``[P, H · entries, D]``; ``written_*`` must be
    bound to its memory.
    """
    encoder = signature("encoder", dimensions, precision)
    element = element_type(precision)
    cross = TensorType(element, ("P", "lines of cross", dimensions.head_width))
    width = dimensions.width if dimensions.recurrent else dimensions.head_width
    own = TensorType(element, ("P", "lines of self", width))
    pools = {
        **dict.fromkeys(encoder.outputs, cross),
        **dict.fromkeys(_own_arrays(dimensions, encoder.outputs), own),
    }
    return Signature(
        {
            **encoder.inputs,
            "slots": TensorType("int64", ("B", 1, 1)),
            **{f"pool_{name}": pool for name, pool in pools.items()},
        },
        {f"written_{name}": pool for name, pool in pools.items()},
    )


def _own_arrays(dimensions: Dimensions, encoded: Iterable[str]) -> list[str]:
    """Arrays of the decoder's own pool."""
    if dimensions.recurrent:
        return [f"state.{i}" for i in range(dimensions.decoder_layers)]
    return [f"self{name.removeprefix('cross')}" for name in encoded]


def admission_graph(encoder: bytes, dimensions: Dimensions, precision: Precision) -> bytes:
    """A serialised model that extends the serialised ``encoder``.

    Each slot gets the keys and values of its source, and zeros behind them and in the decoder's own
    pool: an earlier sentence may have left NaN there, which no mask hides.
    """
    writer = _Writer(dimensions, np.float16 if precision == "fp16" else np.float32)
    encoded = signature("encoder", dimensions, precision).outputs
    own = _own_arrays(dimensions, encoded)
    width = dimensions.width if dimensions.recurrent else dimensions.head_width
    for updates in (
        {name: writer.padded(name) for name in encoded},
        dict.fromkeys(own, writer.zeros(f"pool_{own[0]}", width)),
    ):
        # All updates of a pool have one shape.
        first = next(iter(updates))
        places = writer.places(f"pool_{first}", updates[first])
        for array, update in updates.items():
            writer.op("ScatterND", f"pool_{array}", places, update, into=f"written_{array}")
    added = writer.model("admission", admission_signature(dimensions, precision)).graph
    model = onnx.load_from_string(encoder)
    add_prefix_graph(
        model.graph, "encoder_", rename_inputs=False, rename_outputs=False, inplace=True
    )
    for field in ("input", "output"):
        model.graph.ClearField(field)
    for field in ("node", "initializer", "input", "output"):
        getattr(model.graph, field).extend(getattr(added, field))
    content: bytes = model.SerializeToString()
    return content


class _Writer(GraphBuilder):
    def __init__(self, dimensions: Dimensions, element: type[np.floating]) -> None:
        super().__init__(WeightFile(""))
        self._heads, self._width = dimensions.heads, dimensions.head_width
        self._zero = self.constant(0, element)

    def padded(self, encoded: str) -> str:
        """Keys or values ``[B, H, S, D]`` and zeros behind them, ``[B, H · entries, D]``."""
        entries = self.op("Div", self._size("pool_cross_keys.0", 1), self.ints(self._heads))
        behind = self.op("Sub", entries, self._size(encoded, 2))
        pads = self.op("Concat", self.ints(*[0] * 6), behind, self.ints(0), axis=0)
        return self.reshape(self.op("Pad", encoded, pads, self._zero), 0, -1, self._width)

    def zeros(self, pool: str, width: int) -> str:
        """``[B, lines, width]`` of the decoder's own pool."""
        size = self._size("slots", 0), self._size(pool, 1), self.ints(width)
        return self.op("Expand", self._zero, self.op("Concat", *size, axis=0))

    def places(self, pool: str, updates: str) -> str:
        """Slot and line of each entry of the updates, ``[B, H · entries, 2]``."""
        lines, one = self._size(pool, 1), self.ints(1)
        shape = self.op("Concat", self._size(updates, 0), lines, one, axis=0)
        first, increment = self.constant(0, np.int64), self.constant(1, np.int64)
        numbers = self.op("Range", first, self.op("Squeeze", lines), increment)
        parts = "slots", self.unsqueeze(numbers, 0, 2)
        each = [self.op("Expand", part, shape) for part in parts]
        return self.op("Concat", *each, axis=-1)

    def _size(self, x: str, axis: int) -> str:
        """A dimension of x, as a vector of one number."""
        return self.op("Shape", x, start=axis, end=axis + 1)
