"""Graph that writes entries of several slots into every array of a pool of keys and values.

A bundle has no such graph: the service builds it, because copies by the CUDA runtime would need
calls for each run of consecutive slots. Shapes: service/runtime/backend.py, memory.py.
"""

from __future__ import annotations

from models.bundle.graphs import Signature, TensorType
from models.export.builder import GraphBuilder, WeightFile


def scatter_graph(arrays: int, heads: int, width: int, element: str) -> bytes:
    """A serialised model that changes its ``arrays`` inputs in place.

    ``updates.i[b, h, s]`` is written to line ``lines[b, h, s]`` of ``pool.i``, whose lines are
    entries of ``width`` numbers. ``written.i`` must be bound to the memory of ``pool.i``.
    """
    names = [str(i) for i in range(arrays)]
    graph = GraphBuilder(WeightFile(""))
    for i in names:
        graph.op("ScatterND", f"pool.{i}", "lines", f"updates.{i}", into=f"written.{i}")
    pool = TensorType(element, ("PHC", width))
    updates = TensorType(element, ("B", heads, "S", width))
    inputs = {
        "lines": TensorType("int64", ("B", heads, "S", 1)),
        **{f"pool.{i}": pool for i in names},
        **{f"updates.{i}": updates for i in names},
    }
    signature = Signature(inputs, {f"written.{i}": pool for i in names})
    content: bytes = graph.model("scatter", signature).SerializeToString()
    return content
