"""The network of a bundle, read from its ONNX graph: the inverse of ``models.export.weights``.

Only the attention graph is read, because it uses every weight of the network.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from torch import Tensor

from models.bundle.bundle import Bundle, weights_file
from models.bundle.manifest import InvalidBundle, Precision
from models.transformer.config import Activation, Positions, TransformerConfig
from models.transformer.layers import sinusoids
from models.transformer.transformer import Transformer

PREFERRED: tuple[Precision, ...] = ("fp32", "fp16", "int8")
"""The precisions of a bundle, the most exact first."""
SINUSOIDS: tuple[Positions, ...] = tuple(each for each in get_args(Positions) if each != "learned")
FIRST_POSITIONS = range(3)
"""Values of ``first_position`` that are tried. M2M100 has 2, every other network has 0."""
SINUSOID_TOLERANCE = 1e-3
"""Four times the rounding error of fp16 near 1."""
FUSED = {
    "query_key_value": ("query", "key", "value"),
    "key_value": ("key", "value"),
    "input_gate": ("input", "gate"),
}
"""Names of the parts of matrices that are one in a graph."""

Arrays = Mapping[str, NDArray[Any]]


def read_network(bundle: Bundle) -> tuple[TransformerConfig, dict[str, Tensor]]:
    """The configuration of a bundle's network, and its state dict in fp32.

    Reads the most exact precision of the bundle. int8 weights are dequantised. The configuration
    has default dropout rates, because a bundle does not record them. Raises ``InvalidBundle`` if
    the graph does not have the weights of the network that the manifest describes.
    """
    # Graphs in fp16 may share the weights of int8.
    precision = next(each for each in PREFERRED if weights_file(each) in bundle.manifest.files)
    path = bundle.graph("attention", precision)
    graph = onnx.load(path).graph
    try:
        arrays = dequantised(graph)
        config = _config_of(bundle, graph, arrays)
        weights = _state_dict(arrays, config)
    except (KeyError, ValueError) as error:
        raise InvalidBundle(f"{path} is not a graph of this program's networks: {error}") from error
    with torch.device("meta"):
        expected = Transformer(config).state_dict()
    wanted, found = ({(n, t.shape) for n, t in each.items()} for each in (expected, weights))
    if wrong := sorted({name for name, _ in wanted ^ found}):
        raise InvalidBundle(
            f"{path} does not have the weights of the network that the manifest describes; "
            f"missing, unknown or of another shape: {', '.join(wrong)}"
        )
    return config, weights


def dequantised(graph: onnx.GraphProto) -> Arrays:
    """The initialisers of a graph by name, with integer weights and biases as floats."""
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "QGemm":
            _, input_scale, _, _, weight_scale, _, *optional = node.input
            bias = optional[0] if optional else ""
            if bias:
                arrays[bias] = arrays[bias] * (arrays[input_scale] * arrays[weight_scale])
    for name, array in arrays.items():
        if array.dtype == np.int8 and name.endswith(".weight"):
            arrays[name] = array * arrays[f"{name}_scale"][:, None]
    return arrays


def _config_of(bundle: Bundle, graph: onnx.GraphProto, arrays: Arrays) -> TransformerConfig:
    shape, operators = bundle.manifest.dimensions, {node.op_type for node in graph.node}
    table = arrays["position_table"]
    positions: Positions = "learned"
    first_position = 0
    if "target_position_table" not in arrays:
        positions, first_position = _sinusoids_of(table)
    tying: Literal["all", "decoder", "none"] = "decoder" if "source.weight" in arrays else "all"
    if "generator.weight" in arrays:
        tying = "none"
    # An int8 graph has no Relu operator: quantising to uint8 removes negative numbers.
    activation: Activation = "gelu" if "Gelu" in operators else "relu"
    if "QuickGelu" in operators:
        activation = "silu"
    (epsilon,) = {
        helper.get_node_attr_value(node, "epsilon")
        for node in graph.node
        if node.op_type == "LayerNormalization"
    }
    multipliers = [
        arrays[name].item()
        for node in graph.node
        if node.op_type == "Mul"
        for name in node.input
        if name in arrays and arrays[name].size == 1
    ]
    return TransformerConfig(
        source_vocabulary=shape.source_vocabulary,
        target_vocabulary=shape.vocabulary_size,
        encoder_layers=shape.encoder_layers,
        decoder_layers=shape.decoder_layers,
        width=shape.width,
        heads=shape.heads,
        feed_forward=shape.feed_forward,
        norm="before" if "encoder.norm.scale" in arrays else "after",
        positions=positions,
        first_position=first_position,
        # The other scalar factors, 1/√D and the bias of hidden positions, are at most 1.
        scaled_embeddings=any(math.isclose(x, shape.width**0.5, rel_tol=1e-3) for x in multipliers),
        tying=tying,
        output_bias="target.bias" in arrays or "generator.bias" in arrays,
        decoder=shape.decoder,
        # Attributes are fp32.
        norm_epsilon=float(f"{epsilon:.6g}"),
        activation=activation,
        max_length=len(table),
        pad_id=bundle.manifest.special_ids.pad,
    )


def _sinusoids_of(table_PW: NDArray[Any]) -> tuple[Positions, int]:
    """The kind of sinusoids in a table of positions, and its first position."""
    length, width = table_PW.shape
    errors = {
        (kind, first): np.abs(sinusoids(length, width, kind, first).numpy() - table_PW).max()
        for kind in SINUSOIDS
        if kind != "sinusoidal_tensor2tensor" or width >= 4
        for first in FIRST_POSITIONS
    }
    best = min(errors, key=lambda key: errors[key])
    if not errors[best] < SINUSOID_TOLERANCE:
        raise ValueError(f"position_table has no known sinusoids; {best} differ by {errors[best]}")
    return best


def _state_dict(arrays: Arrays, config: TransformerConfig) -> dict[str, Tensor]:
    """The arrays under the names of ``Transformer.state_dict``, with fused matrices split."""
    found: dict[str, NDArray[Any]] = {}
    for name, array in arrays.items():
        owner, _, kind = name.rpartition(".")
        layer, _, part = owner.rpartition(".")
        if kind not in ("weight", "bias", "scale"):
            continue
        if part == "norm":
            last = layer in ("encoder", "decoder")
            norm = f"{layer}_norm" if last else f"{layer}_residual.norm"
            found[f"{norm}.{'weight' if kind == 'scale' else kind}"] = array
        elif part in FUSED:
            parts = FUSED[part]
            for each, rows in zip(parts, np.split(array, len(parts)), strict=True):
                found[f"{layer}.{each}.{kind}"] = rows
        elif part.isdecimal() and (fused := layer.rpartition("."))[2] in FUSED:
            # int8 matrices whose inputs have scales of their own are not joined.
            found[f"{fused[0]}.{FUSED[fused[2]][int(part)]}.{kind}"] = array
        else:
            found[name] = array
    if config.recurrent:
        for i in range(config.decoder_layers):
            # Zeros beside the bias of the gate.
            found.pop(f"decoder.{i}.recurrence.input.bias")
    table = found.pop("target.weight")
    found["target_embedding.tokens.weight"] = table
    found["source_embedding.tokens.weight"] = found.pop("source.weight", table)
    if config.tying != "none":
        found["generator.weight"] = table
        if config.output_bias:
            found["generator.bias"] = found.pop("target.bias")
    if config.positions == "learned":
        found["source_embedding.positions"] = arrays["position_table"]
        found["target_embedding.positions"] = arrays["target_position_table"]
    return {name: torch.tensor(array, dtype=torch.float32) for name, array in found.items()}
