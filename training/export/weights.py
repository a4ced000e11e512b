"""The network's matrices as the graphs want them: fused, transposed, quantised, each once.

Linear layers that read the same input are one matrix (query, key and value; key and value of
cross-attention). A matrix is stored ``[inputs, outputs]``, as int8 with one scale per output.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import nn

from models.bundle.manifest import Precision
from models.transformer.transformer import Transformer
from training.export.builder import WeightFile

FloatArray = NDArray[np.float32]


def collect_weights(network: Transformer, precision: Precision) -> WeightFile:
    """Every weight of the network, under the names that ``training.export.graphs`` uses."""
    file = WeightFile(f"weights.{precision}.bin")

    def linear(name: str, *layers: nn.Linear) -> None:
        matrix = np.concatenate([_array(layer.weight) for layer in layers]).T
        _add_matrix(file, name, matrix, precision)
        biases = [_array(layer.bias) for layer in layers if layer.bias is not None]
        if biases:
            file.add(f"{name}.bias", np.concatenate(biases))

    def norm(name: str, layer: nn.Module) -> None:
        if isinstance(layer, nn.LayerNorm):
            file.add(f"{name}.scale", _array(layer.weight))
            file.add(f"{name}.bias", _array(layer.bias))

    config = network.config
    _add_matrix(file, "target", _array(network.target_embedding.tokens.weight).T, precision)
    if config.tying != "all":
        _add_matrix(file, "source", _array(network.source_embedding.tokens.weight).T, precision)
    if config.tying == "none":
        linear("generator", network.generator)
    positions = _array(network.source_embedding.positions)
    file.add("position_table", positions)
    if config.positions == "learned":
        file.add("target_position_table", _array(network.target_embedding.positions))

    for i, layer in enumerate(network.encoder_layers):
        name = f"encoder.{i}"
        own = layer.attention
        linear(f"{name}.attention.query_key_value", own.query, own.key, own.value)
        linear(f"{name}.attention.output", own.output)
        linear(f"{name}.feed_forward.inner", layer.feed_forward.inner)
        linear(f"{name}.feed_forward.outer", layer.feed_forward.outer)
        norm(f"{name}.attention.norm", layer.attention_residual.norm)
        norm(f"{name}.feed_forward.norm", layer.feed_forward_residual.norm)
    for i, decoder_layer in enumerate(network.decoder_layers):
        name = f"decoder.{i}"
        own, cross = decoder_layer.attention, decoder_layer.cross
        linear(f"{name}.attention.query_key_value", own.query, own.key, own.value)
        linear(f"{name}.attention.output", own.output)
        linear(f"{name}.cross.query", cross.query)
        linear(f"{name}.cross.key_value", cross.key, cross.value)
        linear(f"{name}.cross.output", cross.output)
        linear(f"{name}.feed_forward.inner", decoder_layer.feed_forward.inner)
        linear(f"{name}.feed_forward.outer", decoder_layer.feed_forward.outer)
        norm(f"{name}.attention.norm", decoder_layer.attention_residual.norm)
        norm(f"{name}.cross.norm", decoder_layer.cross_residual.norm)
        norm(f"{name}.feed_forward.norm", decoder_layer.feed_forward_residual.norm)
    norm("encoder.norm", network.encoder_norm)
    norm("decoder.norm", network.decoder_norm)
    return file


def quantise(matrix: FloatArray) -> tuple[NDArray[np.int8], FloatArray]:
    """Symmetric int8 with one scale per column: ``matrix ≈ quantised * scale``."""
    scale = np.abs(matrix).max(axis=0) / 127
    scale = np.where(scale == 0, 1.0, scale).astype(np.float32)
    return np.clip(np.rint(matrix / scale), -127, 127).astype(np.int8), scale


def _add_matrix(file: WeightFile, name: str, matrix: FloatArray, precision: Precision) -> None:
    if precision == "int8":
        quantised, scale = quantise(matrix)
        file.add(f"{name}.weight", quantised)
        file.add(f"{name}.weight_scale", scale)
    elif precision == "fp32":
        file.add(f"{name}.weight", matrix)
    else:
        raise ValueError(f"no graphs are written in {precision}")


def _array(parameter: object) -> FloatArray:
    array: FloatArray = parameter.detach().float().cpu().numpy()  # type: ignore[attr-defined]
    return array
