"""Rewrites a step graph for a GPU: the average over heads as a product.

ONNX Runtime computes ``ReduceMean`` by cuDNN, with seven calls for each run.
"""

from __future__ import annotations

import numpy as np
import onnx

from models.bundle.manifest import Dimensions


def with_averages_as_products(step: bytes, dimensions: Dimensions) -> bytes:
    """The serialised ``step`` with products for averages over heads outside of branches."""
    model = onnx.load_from_string(step)
    graph = model.graph
    heads = dimensions.heads
    for number, node in enumerate(graph.node):
        if node.op_type != "ReduceMean":
            continue
        weights, (mean,) = node.input[0], node.output
        share = np.full((heads, 1), 1 / heads, np.float16)
        names = [f"{mean}_{part}" for part in ("heads_last", "share", "product", "axis")]
        heads_last, share_name, product, axis = names
        graph.initializer.append(onnx.numpy_helper.from_array(share, share_name))
        graph.initializer.append(onnx.numpy_helper.from_array(np.array([3]), axis))
        replacement = [
            onnx.helper.make_node("Transpose", [weights], [heads_last], perm=[0, 2, 3, 1]),
            onnx.helper.make_node("MatMul", [heads_last, share_name], [product]),
            onnx.helper.make_node("Squeeze", [product, axis], [mean]),
        ]
        nodes = [*graph.node[:number], *replacement, *graph.node[number + 1 :]]
        graph.ClearField("node")
        graph.node.extend(nodes)
        break
    content: bytes = model.SerializeToString()
    return content
