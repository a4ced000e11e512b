"""The network's matrices in the layout of the graphs: fused, quantised, each stored once.

Linear layers with the same input are one matrix (query, key and value; key and value of
cross-attention). A matrix is stored ``[outputs, inputs]``, so that the output projection is also
the embedding table. int8 has one scale per output, so large that sums of two neighbouring products
fit in 16 bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from models.bundle.manifest import Precision
from models.export.builder import WeightFile
from models.export.calibration import Ranges, step_and_zero
from models.reference.transformer import ReferenceTransformer

FloatArray = NDArray[np.float32]
FLOATS: dict[Precision, type[np.floating[Any]]] = {
    "fp32": np.float32,
    "int8": np.float32,
    "fp16": np.float16,
}
"""Storage type of everything but quantised matrices."""


INT8_MAX = 127
PAIR_MAX = 128
"""Largest sum of two neighbouring values of a row, counted from its beginning. Processors without
VNNI add two products with uint8 in 16 bits, which hold 255 · 128."""
SHIFTED_MAX = 120
"""Substitute for ``INT8_MAX`` in a matrix that is near the values of an earlier quantisation."""
UNCHANGED = 1e-6
"""Largest mean square distance of a row from whole steps, in steps, of weights as quantised."""
QUANTISED_ROWS = 4096
"""Number of rows that are quantised at once."""
INT32_BOUND = 2**30
"""Bound of quantised biases, so that sums of products fit in int32."""
FP16_LOWEST = -6e4
"""Lower bound of fp16 biases, close to fp16's lowest number -65,504; it masks a piece."""


LARGEST_INPUT = "largest_input"
"""Weight of files with foreign activation scales: the largest input of a product after a ReLU."""
SYMMETRIC_ZERO = 127
"""Zero point of symmetric inputs. With saturation they are -127 to 128, as in Marian."""


@dataclass(frozen=True, slots=True)
class IntegerMatrix:
    """A matrix in int8, as its file has it."""

    values: NDArray[np.int8]
    """``[outputs, inputs]``; integer / ``multiplier`` is the weight."""
    multiplier: np.float32
    input_multiplier: np.float32 | None
    """Factor of inputs before they are rounded; ``None`` without a product."""


Integers: TypeAlias = Mapping[str, IntegerMatrix]
"""Matrices by their names in the reference network, without ``.weight``."""


def collect_weights(
    network: ReferenceTransformer,
    precision: Precision,
    ranges: Ranges | None = None,
    integers: Integers | None = None,
) -> WeightFile:
    """Every weight of the network, under the names of ``models.export.emitter``.

    int8 requires the ``ranges`` of the matrices' inputs, or the ``integers`` that the network was
    read from, else ``ValueError`` is raised.
    """
    file = WeightFile(f"weights.{precision}.bin")
    config, weights = network.config, network.weights
    quantiser: Quantiser | Kept | None = None
    if precision == "int8":
        if integers is not None:
            quantiser = Kept(file, integers, relu=config.activation == "relu")
        elif ranges is not None:
            quantiser = Quantiser(file, ranges)
        else:
            raise ValueError("int8 weights need the ranges that models.export.calibration finds")

    def matrix(name: str, reads: str | None, layers: Sequence[str], biases: Sequence[str]) -> None:
        """``reads`` names the matrix's input; ``None`` for a table that is not multiplied."""
        bias: FloatArray | None = None
        if biases:
            # The input of SSRU has no bias; its gate has.
            missing = np.zeros(config.width, np.float32)
            bias = np.concatenate([weights.get(f"{layer}.bias", missing) for layer in biases])
        if isinstance(quantiser, Kept):
            quantiser.add(name, reads, layers, bias)
            return
        arrays = [weights[f"{layer}.weight"] for layer in layers]
        values = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
        if quantiser is not None:
            quantiser.add(name, reads, values, bias)
            return
        # fp32 shares the memory of the network.
        file.add(f"{name}.weight", values.astype(FLOATS[precision], copy=False))
        if bias is not None:
            if precision == "fp16":
                bias = np.maximum(bias, FP16_LOWEST)
            file.add(f"{name}.bias", bias.astype(FLOATS[precision]))

    def linear(name: str, reads: str, *layers: str) -> None:
        matrix(name, reads, layers, layers)

    def norm(name: str, layer: str) -> None:
        file.add(f"{name}.scale", weights[f"{layer}.weight"].astype(FLOATS[precision]))
        file.add(f"{name}.bias", weights[f"{layer}.bias"].astype(FLOATS[precision]))

    tied = config.tying != "none"
    output_bias = ["generator"] if config.output_bias else []
    table = ["target_embedding.tokens"]
    matrix("target", "generator" if tied else None, table, output_bias if tied else [])
    if config.tying != "all":
        matrix("source", None, ["source_embedding.tokens"], [])
    if not tied:
        matrix("generator", "generator", ["generator"], output_bias)
    positions = weights["source_embedding.positions"]
    file.add("position_table", positions.astype(FLOATS[precision]))
    if config.positions == "learned":
        learned = weights["target_embedding.positions"]
        file.add("target_position_table", learned.astype(FLOATS[precision]))

    stacks = {
        "encoder": (config.encoder_layers, False),
        "decoder": (config.decoder_layers, True),
    }
    for side, (layers, attends_to_source) in stacks.items():
        for i in range(layers):
            name = f"{side}.{i}"
            if side == "decoder" and config.recurrent:
                own = f"{name}.recurrence"
                linear(f"{own}.input_gate", own, f"{own}.input", f"{own}.gate")
                norm(f"{own}.norm", f"{own}_residual.norm")
            else:
                own = f"{name}.attention"
                parts = [f"{own}.{part}" for part in ("query", "key", "value")]
                linear(f"{own}.query_key_value", own, *parts)
                linear(*[f"{own}.output"] * 3)
                norm(f"{own}.norm", f"{own}_residual.norm")
            if attends_to_source:
                cross = f"{name}.cross"
                linear(f"{cross}.query", cross, f"{cross}.query")
                linear(f"{cross}.key_value", "memory", f"{cross}.key", f"{cross}.value")
                linear(*[f"{cross}.output"] * 3)
                norm(f"{cross}.norm", f"{cross}_residual.norm")
            inner, outer = f"{name}.feed_forward.inner", f"{name}.feed_forward.outer"
            linear(inner, f"{name}.feed_forward", inner)
            linear(outer, outer, outer)
            norm(f"{name}.feed_forward.norm", f"{name}.feed_forward_residual.norm")
    if config.norm == "before":
        norm("encoder.norm", "encoder_norm")
        norm("decoder.norm", "decoder_norm")
    return file


def quantise(
    matrix: FloatArray, least_scale: FloatArray | float = 0.0
) -> tuple[NDArray[np.int8], FloatArray]:
    """Symmetric int8 with one scale per row: ``matrix ≈ quantised * scale[:, None]``.

    No value exceeds ``INT8_MAX``, and no sum of two neighbours ``PAIR_MAX``.

    A network that was trained further from int8 weights is near them. The nearest values would be
    the old ones, so the rows of such a matrix get larger steps, which do not fall on the old ones.
    Rows that did not change keep their values.
    """
    # Rows are quantised in blocks, because a table of embeddings may have a gigabyte.
    starts = range(0, len(matrix), QUANTISED_ROWS)
    blocks = [slice(start, start + QUANTISED_ROWS) for start in starts]
    least = np.concatenate([_least_scale(matrix[rows]) for rows in blocks])
    scale = _positive(np.maximum(least, least_scale))
    larger = _positive(np.maximum(least * (INT8_MAX / SHIFTED_MAX), least_scale))
    distance, other = (
        np.concatenate([_distance(matrix[rows], steps[rows]) for rows in blocks])
        for steps in (scale, larger)
    )
    # Distances of other weights are uniformly distributed: the mean of their squares is 1/12, with
    # a standard deviation of 1/√180. Four of these below the mean, a matrix is near by no chance.
    near = distance.mean() < min(1 / 12 - 4 / np.sqrt(180 * matrix.size), other.mean())
    scale = np.where((distance > UNCHANGED) & (near | (other <= UNCHANGED)), larger, scale)
    quantised = np.empty(matrix.shape, np.int8)
    for rows in blocks:
        rounded = np.rint(matrix[rows] / scale[rows, None])
        quantised[rows] = np.clip(rounded, -INT8_MAX, INT8_MAX)
        # Both of a pair may be rounded up if float errors made one of two ties larger.
        excess = np.clip(sums := _pair_sums(quantised[rows]), -PAIR_MAX, PAIR_MAX) - sums
        quantised[rows, 1::2] += excess.astype(np.int8)
    return quantised, scale


def _least_scale(matrix: FloatArray) -> FloatArray:
    """The smallest scale of each row."""
    largest, largest_sum = (
        np.maximum(values.max(axis=1, initial=0), -values.min(axis=1, initial=0))
        for values in (matrix, _pair_sums(matrix))
    )
    scale: FloatArray = np.maximum(largest / INT8_MAX, largest_sum / PAIR_MAX)
    return scale


def _pair_sums(matrix: NDArray[Any]) -> NDArray[Any]:
    """Sums of each two neighbours of a row; the last value of an odd number has none."""
    second = matrix[:, 1::2]
    first = matrix[:, ::2][:, : second.shape[1]]
    sums: NDArray[Any] = np.add(first, second, dtype=np.result_type(second, np.int16))
    return sums


def _distance(matrix: FloatArray, scale: FloatArray) -> FloatArray:
    """Mean square distance of each row from whole steps, in steps."""
    exact = matrix / scale[:, None]
    distance: FloatArray = np.square(exact - np.rint(exact)).mean(axis=1)
    return distance


def _positive(scale: FloatArray) -> FloatArray:
    return np.where(scale == 0, 1.0, scale).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Quantiser:
    file: WeightFile
    ranges: Ranges

    def add(
        self, name: str, reads: str | None, values: FloatArray, bias: FloatArray | None
    ) -> None:
        # A table that is not multiplied has no input, hence no range.
        input_scale = None if reads is None else self._input_scale(reads)
        least_scale: FloatArray | float = 0.0
        if input_scale is not None and bias is not None:
            # A bias that masks a piece is large; in units of the product it must still fit in
            # int32.
            least_scale = (np.abs(bias) / (input_scale * INT32_BOUND)).astype(np.float32)
        quantised, scale = quantise(values, least_scale)
        self.file.add(f"{name}.weight", quantised)
        self.file.add(f"{name}.weight_scale", scale)
        if input_scale is None:
            return
        self.file.add(f"{name}.weight_zero", np.zeros(len(scale), np.int8))
        if bias is not None:
            # The bias is in units of the product, because it is added before rounding.
            self.file.add(f"{name}.bias", np.rint(bias / (input_scale * scale)).astype(np.int32))

    def _input_scale(self, reads: str) -> np.float32:
        name = f"{reads}.input_scale"
        if name not in self.file.arrays:
            scale, zero = step_and_zero(*self.ranges[reads])
            self.file.add(f"{reads}.input_zero", np.array(zero))
            self.file.add(name, np.array(scale))
        return self.file.arrays[name][()]  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Kept:
    """Writes integers and scales of a quantised network as they are."""

    file: WeightFile
    integers: Integers
    relu: bool

    def add(
        self, name: str, reads: str | None, layers: Sequence[str], bias: FloatArray | None
    ) -> None:
        matrices = [self.integers[layer] for layer in layers]
        if len({matrix.input_multiplier for matrix in matrices}) == 1:
            self._add(name, reads, matrices, bias)
            return
        # One matrix for all of them would need one scale of their input.
        ends = np.cumsum([len(matrix.values) for matrix in matrices])[:-1]
        biases = [None] * len(matrices) if bias is None else np.split(bias, ends)
        for i, (matrix, own) in enumerate(zip(matrices, biases, strict=True)):
            self._add(f"{name}.{i}", reads, [matrix], own)

    def _add(
        self,
        name: str,
        reads: str | None,
        matrices: Sequence[IntegerMatrix],
        bias: FloatArray | None,
    ) -> None:
        arrays = [matrix.values for matrix in matrices]
        self.file.add(f"{name}.weight", arrays[0] if len(arrays) == 1 else np.concatenate(arrays))
        scale = np.concatenate(
            [np.full(len(each.values), 1 / each.multiplier, np.float32) for each in matrices]
        )
        self.file.add(f"{name}.weight_scale", scale)
        multiplier = matrices[0].input_multiplier
        if reads is None or multiplier is None:
            return
        input_scale, zero = np.float32(1 / multiplier), SYMMETRIC_ZERO
        if self.relu and name.endswith("feed_forward.outer"):
            # Quantising with the zero point 0 is the ReLU. The largest value remains Marian's.
            zero = 0
            if LARGEST_INPUT not in self.file.arrays:
                self.file.add(LARGEST_INPUT, np.array(255 - SYMMETRIC_ZERO, np.uint8))
        self.file.add(f"{name}.input_scale", np.array(input_scale))
        self.file.add(f"{name}.input_zero", np.array(zero, np.uint8))
        self.file.add(f"{name}.weight_zero", np.zeros(len(scale), np.int8))
        if bias is not None:
            # A bias that masks a piece remains far below any other within the bound.
            steps = np.clip(np.rint(bias / (input_scale * scale)), -INT32_BOUND, INT32_BOUND)
            self.file.add(f"{name}.bias", steps.astype(np.int32))
