"""Largest activation of a network, which must stay within the range of fp16.

The graphs in fp16 cannot show it: ONNX Runtime computes much of them in fp32 on a CPU. So all
values of the fp32 ``attention`` graph are looked at, which computes the whole network.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from models.bundle.bundle import graph_file
from models.bundle.manifest import SpecialIds
from models.export.emitter import HIDDEN

LARGEST = 32_000.0
"""Half of what fp16 can represent, since other sentences reach more than those looked at."""
_MASKED = HIDDEN / 2
"""Values below are scores of masked positions, which fp16 masks by another number."""


def largest_activation(
    directory: Path,
    special: SpecialIds,
    sentences: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
) -> float:
    """The largest absolute value over sentences of source ids, with ``eos``, and target ids."""
    model = onnx.load(directory / graph_file("attention", "fp32"), load_external_data=False)
    given = {output.name for output in model.graph.output}
    names = [name for node in model.graph.node for name in node.output if name]
    # ONNX Runtime infers the types of outputs.
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in given)
    watched = directory / "watched.onnx"
    onnx.save(model, watched)
    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        # Otherwise nodes are fused whose results are looked at.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(watched, options, ["CPUExecutionProvider"])
    finally:
        watched.unlink()
    largest = 0.0
    for source_ids, target_ids in sentences:
        feeds = {
            "source_ids": np.array([source_ids], np.int32),
            "target_input_ids": np.array([(special.bos, *target_ids)], np.int32),
            "target_output_ids": np.array([(*target_ids, special.eos)], np.int32),
        }
        for value in session.run(None, feeds):
            if value.dtype == np.float32 and value.size:
                shown = np.abs(value, where=value > _MASKED, out=np.zeros_like(value))
                largest = max(largest, float(shown.max()))
    return largest
