"""The network's matrices as the graphs want them: fused, quantised, each once.

Linear layers that read the same input are one matrix (query, key and value; key and value of
cross-attention). A matrix is stored ``[outputs, inputs]``, so that the output projection is also
the table of embeddings; as int8 with one scale per output.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from models.bundle.manifest import Precision
from models.transformer.transformer import Transformer
from training.export.builder import WeightFile
from training.export.calibration import Ranges

FloatArray = NDArray[np.float32]
FLOATS: dict[Precision, type[np.floating[Any]]] = {
    "fp32": np.float32,
    "int8": np.float32,
    "fp16": np.float16,
}
"""What is not a quantised matrix is stored as."""


INT8_MAX = 127
UINT8_MAX = 255


def collect_weights(
    network: Transformer, precision: Precision, ranges: Ranges | None = None
) -> WeightFile:
    """Every weight of the network, under the names that ``training.export.emitter`` uses.

    int8 needs the ``ranges`` of the matrices' inputs. Raises ``ValueError`` without them.
    """
    if precision == "int8" and ranges is None:
        raise ValueError("int8 weights need the ranges that training.export.calibration finds")
    file = WeightFile(f"weights.{precision}.bin")
    quantiser = Quantiser(file, ranges) if ranges is not None and precision == "int8" else None

    def matrix(name: str, reads: str | None, values: FloatArray, bias: FloatArray | None) -> None:
        """``reads`` names the input; ``None`` is a table that nothing is multiplied by."""
        if quantiser is not None:
            quantiser.add(name, reads, values, bias)
            return
        file.add(f"{name}.weight", values.astype(FLOATS[precision]))
        if bias is not None:
            file.add(f"{name}.bias", bias.astype(FLOATS[precision]))

    def linear(name: str, reads: str, *layers: nn.Linear) -> None:
        biases = [_array(layer.bias) for layer in layers if layer.bias is not None]
        matrix(
            name,
            reads,
            np.concatenate([_array(layer.weight) for layer in layers]),
            np.concatenate(biases) if biases else None,
        )

    def norm(name: str, layer: nn.Module) -> None:
        if isinstance(layer, nn.LayerNorm):
            file.add(f"{name}.scale", _array(layer.weight).astype(FLOATS[precision]))
            file.add(f"{name}.bias", _array(layer.bias).astype(FLOATS[precision]))

    config = network.config
    tied = config.tying != "none"
    table = _array(network.target_embedding.tokens.weight)
    matrix("target", "generator" if tied else None, table, None)
    if config.tying != "all":
        matrix("source", None, _array(network.source_embedding.tokens.weight), None)
    if not tied:
        linear("generator", "generator", network.generator)
    file.add("position_table", _array(network.source_embedding.positions).astype(FLOATS[precision]))
    if config.positions == "learned":
        learned = _array(network.target_embedding.positions)
        file.add("target_position_table", learned.astype(FLOATS[precision]))

    for i, layer in enumerate(network.encoder_layers):
        name = f"encoder.{i}"
        own = layer.attention
        linear(
            f"{name}.attention.query_key_value", f"{name}.attention", own.query, own.key, own.value
        )
        linear(f"{name}.attention.output", f"{name}.attention.output", own.output)
        linear(f"{name}.feed_forward.inner", f"{name}.feed_forward", layer.feed_forward.inner)
        linear(f"{name}.feed_forward.outer", f"{name}.feed_forward.outer", layer.feed_forward.outer)
        norm(f"{name}.attention.norm", layer.attention_residual.norm)
        norm(f"{name}.feed_forward.norm", layer.feed_forward_residual.norm)
    for i, decoder_layer in enumerate(network.decoder_layers):
        name = f"decoder.{i}"
        own, cross = decoder_layer.attention, decoder_layer.cross
        linear(
            f"{name}.attention.query_key_value", f"{name}.attention", own.query, own.key, own.value
        )
        linear(f"{name}.attention.output", f"{name}.attention.output", own.output)
        linear(f"{name}.cross.query", f"{name}.cross", cross.query)
        linear(f"{name}.cross.key_value", "memory", cross.key, cross.value)
        linear(f"{name}.cross.output", f"{name}.cross.output", cross.output)
        linear(
            f"{name}.feed_forward.inner", f"{name}.feed_forward", decoder_layer.feed_forward.inner
        )
        linear(
            f"{name}.feed_forward.outer",
            f"{name}.feed_forward.outer",
            decoder_layer.feed_forward.outer,
        )
        norm(f"{name}.attention.norm", decoder_layer.attention_residual.norm)
        norm(f"{name}.cross.norm", decoder_layer.cross_residual.norm)
        norm(f"{name}.feed_forward.norm", decoder_layer.feed_forward_residual.norm)
    norm("encoder.norm", network.encoder_norm)
    norm("decoder.norm", network.decoder_norm)
    return file


def quantise(matrix: FloatArray) -> tuple[NDArray[np.int8], FloatArray]:
    """Symmetric int8 with one scale per row: ``matrix ≈ quantised * scale[:, None]``."""
    scale = np.abs(matrix).max(axis=1) / INT8_MAX
    scale = np.where(scale == 0, 1.0, scale).astype(np.float32)
    return np.clip(np.rint(matrix / scale[:, None]), -INT8_MAX, INT8_MAX).astype(np.int8), scale


@dataclass(frozen=True, slots=True)
class Quantiser:
    file: WeightFile
    ranges: Ranges

    def add(
        self, name: str, reads: str | None, values: FloatArray, bias: FloatArray | None
    ) -> None:
        quantised, scale = quantise(values)
        self.file.add(f"{name}.weight", quantised)
        self.file.add(f"{name}.weight_scale", scale)
        if reads is None:
            return
        self.file.add(f"{name}.weight_zero", np.zeros(len(scale), np.int8))
        input_scale = self._input_scale(reads)
        if bias is not None:
            # In units of the product, so that it is added before anything is rounded.
            self.file.add(f"{name}.bias", np.rint(bias / (input_scale * scale)).astype(np.int32))

    def _input_scale(self, reads: str) -> np.float32:
        name = f"{reads}.input_scale"
        if name not in self.file.arrays:
            # What leaves a ReLU is never negative, and has all of uint8 to itself.
            levels = UINT8_MAX if reads.endswith("feed_forward.outer") else INT8_MAX
            # An input that was always zero may have any scale but zero.
            self.file.add(name, np.array(self.ranges[reads] / levels or 1.0, np.float32))
        return self.file.arrays[name][()]  # type: ignore[return-value]


def _array(parameter: object) -> FloatArray:
    array: FloatArray = parameter.detach().float().cpu().numpy()  # type: ignore[attr-defined]
    return array
