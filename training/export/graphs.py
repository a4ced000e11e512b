"""The three graphs of a bundle, node by node; their signatures are in ``models.bundle.graphs``.

Read beside ``models.transformer``: the same network, with the matrices of ``weights`` fused.
Legend of shapes as there; rows of several sentences are flattened to ``R`` for linear layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx

from models.bundle.graphs import signature
from models.bundle.manifest import Dimensions, GraphName, Precision
from models.transformer.config import TransformerConfig
from training.export.builder import MICROSOFT, GraphBuilder, WeightFile

HIDDEN = -1e9
"""Added to a score to hide it: far below any score, and finite, so that nothing becomes NaN."""


@dataclass(frozen=True, slots=True)
class Emitter:
    """Emits the parts that all three graphs are made of."""

    graph: GraphBuilder
    config: TransformerConfig
    precision: Precision

    def embed(self, side: str, ids: str, positions: str) -> str:
        """``[…]`` ids and positions to ``[…, W]``: embedding · √W + position."""
        g, config = self.graph, self.config
        table = "source" if side == "source" and config.tying != "all" else "target"
        # The table is the output projection's matrix, [W, V]: a token is a column.
        column = g.op("Gather", g.weight(f"{table}.weight"), ids, axis=1)
        if self.precision == "int8":
            column = g.op("Cast", column, to=onnx.TensorProto.FLOAT)
        embedded = g.op("Transpose", column, perm=[1, 2, 0])
        if self.precision == "int8":
            scale = g.op("Gather", g.weight(f"{table}.weight_scale"), ids)
            embedded = g.op("Mul", embedded, g.op("Unsqueeze", scale, g.constant([-1], np.int64)))
        scaled = g.op("Mul", embedded, g.constant(math.sqrt(config.width), np.float32))
        own = side == "target" and g.has_weight("target_position_table")
        table = g.weight("target_position_table" if own else "position_table")
        at = g.op("Gather", table, positions)
        return g.op("Add", scaled, at)

    def linear(self, x: str, name: str, activation: str = "") -> str:
        """``[R, inputs]`` to ``[R, outputs]``."""
        g = self.graph
        weight = g.weight(f"{name}.weight")
        bias = g.weight(f"{name}.bias") if g.has_weight(f"{name}.bias") else ""
        if self.precision == "int8":
            y = self._integer_product(x, name)
            y = g.op("Add", y, bias) if bias else y
        else:
            y = g.op("Gemm", x, weight, *([bias] if bias else []))
        return g.op(activation, y) if activation else y

    def _integer_product(self, x: str, name: str) -> str:
        """x·W with each row of x on its own scale, so that neighbours never change a result."""
        g = self.graph
        last = g.constant([-1], np.int64)
        largest = g.op("ReduceMax", g.op("Abs", x), last, keepdims=1)
        # A row of zeros must not be divided by zero.
        largest = g.op("Max", largest, g.constant(1e-12, np.float32))
        step = g.constant(1 / 127, np.float32)
        zero = g.constant(128, np.uint8)
        quantised = g.op("QuantizeLinear", g.op("Div", x, largest), step, zero)
        product = g.op(
            "MatMulIntegerToFloat",
            quantised,
            g.weight(f"{name}.weight"),
            step,
            g.weight(f"{name}.weight_scale"),
            zero,
            domain=MICROSOFT,
        )
        return g.op("Mul", product, largest)

    def norm(self, x: str, name: str) -> str:
        g = self.graph
        if not g.has_weight(f"{name}.scale"):
            return x
        scale, bias = g.weight(f"{name}.scale"), g.weight(f"{name}.bias")
        return g.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5)

    def residual(self, x: str, name: str, sublayer: Callable[[str], str]) -> str:
        g = self.graph
        if self.config.norm == "before":
            return g.op("Add", x, sublayer(self.norm(x, f"{name}.norm")))
        return self.norm(g.op("Add", x, sublayer(x)), f"{name}.norm")

    def feed_forward(self, x: str, layer: str) -> str:
        """The feed-forward sub-layer of a layer, with residual and norm."""
        name = f"{layer}.feed_forward"

        def inner_and_outer(y: str) -> str:
            return self.linear(self.linear(y, f"{name}.inner", activation="Relu"), f"{name}.outer")

        return self.residual(x, name, inner_and_outer)

    def split(self, x: str, parts: int) -> list[str]:
        return self.graph.ops("Split", x, into=[""] * parts, axis=-1, num_outputs=parts)

    def heads(self, x: str, shape: str) -> str:
        """``[R, W]`` to ``[B, H, positions, D]``; ``shape`` holds [B, positions, H, D]."""
        g = self.graph
        return g.op("Transpose", g.op("Reshape", x, shape), perm=[0, 2, 1, 3])

    def flat(self, x: str) -> str:
        return self.graph.reshape(x, -1, self.config.width)

    def shape_with(self, ids: str, *sizes: int) -> str:
        """The shape of ``ids`` with more dimensions behind."""
        g = self.graph
        return g.op("Concat", g.op("Shape", ids), g.constant(sizes, np.int64), axis=0)

    def range_of(self, ids: str) -> str:
        """0, 1, … for each position of ``ids``, as ``[1, positions]``."""
        g = self.graph
        length = g.op("Shape", ids, start=1, end=2)
        scalar = g.op("Squeeze", length)
        zero, one = g.constant(0, np.int64), g.constant(1, np.int64)
        return g.op("Unsqueeze", g.op("Range", zero, scalar, one), g.constant([0], np.int64))

    def logits(self, x: str) -> str:
        """``[R, W]`` to ``[R, V]``."""
        return self.linear(x, "generator" if self.config.tying == "none" else "target")

    @property
    def head_sizes(self) -> tuple[int, int]:
        return self.config.heads, self.config.head_width


def build_graph(
    name: GraphName, weights: WeightFile, config: TransformerConfig, precision: Precision
) -> onnx.ModelProto:
    """One graph of a bundle, its weights left in the shared file."""
    emitter = Emitter(GraphBuilder(weights), config, precision)
    match name:
        case "encoder":
            _encoder(emitter)
        case "step":
            _step(emitter)
        case "attention":
            _attention(emitter)
    return emitter.graph.model(name, signature(name, dimensions_of(config)))


def dimensions_of(config: TransformerConfig) -> Dimensions:
    return Dimensions(
        encoder_layers=config.encoder_layers,
        decoder_layers=config.decoder_layers,
        width=config.width,
        heads=config.heads,
        feed_forward=config.feed_forward,
        vocabulary_size=config.target_vocabulary,
    )


def _encoder(e: Emitter) -> None:
    g = e.graph
    is_padding = g.op("Equal", "source_ids", g.constant(e.config.pad_id, np.int32))
    visible = g.op("Cast", g.op("Not", is_padding), to=onnx.TensorProto.INT32)
    width_shape = e.shape_with("source_ids", e.config.width)

    def attend(name: str, y: str) -> str:
        parts = e.split(e.linear(y, f"{name}.query_key_value"), 3)
        query, key, value = (g.op("Reshape", part, width_shape) for part in parts)
        heads = e.config.heads
        joined = g.op(
            "MultiHeadAttention", query, key, value, "", visible, domain=MICROSOFT, num_heads=heads
        )
        return e.linear(e.flat(joined), f"{name}.output")

    x = e.flat(e.embed("source", "source_ids", e.range_of("source_ids")))
    for i in range(e.config.encoder_layers):
        name = f"encoder.{i}.attention"
        x = e.feed_forward(e.residual(x, name, partial(attend, name)), f"encoder.{i}")
    memory = e.norm(x, "encoder.norm")
    shape = e.shape_with("source_ids", *e.head_sizes)
    for i in range(e.config.decoder_layers):
        key, value = e.split(e.linear(memory, f"decoder.{i}.cross.key_value"), 2)
        for kind, part in (("keys", key), ("values", value)):
            g.op(
                "Transpose",
                g.op("Reshape", part, shape),
                perm=[0, 2, 1, 3],
                into=f"cross_{kind}.{i}",
            )


def _step(e: Emitter) -> None:
    g = e.graph
    width_shape = e.shape_with("token_ids", e.config.width)
    head_shape = e.shape_with("token_ids", *e.head_sizes)

    def look(name: str, query: str, keys: str, values: str, bias: str) -> str:
        """The rows of a sentence are the queries of one attention over its shared cache."""
        query = g.op("Reshape", query, width_shape)
        heads = e.config.heads
        joined = g.op(
            "MultiHeadAttention",
            query,
            keys,
            values,
            "",
            "",
            bias,
            domain=MICROSOFT,
            num_heads=heads,
        )
        return e.linear(e.flat(joined), f"{name}.output")

    def attend(i: int, y: str) -> str:
        name = f"decoder.{i}.attention"
        query, key, value = e.split(e.linear(y, f"{name}.query_key_value"), 3)
        keys, values = (
            g.op(
                "ScatterND",
                f"self_{kind}.{i}",
                "write_indices",
                g.op("Reshape", part, head_shape),
                into=f"updated_self_{kind}.{i}",
            )
            for kind, part in (("keys", key), ("values", value))
        )
        return look(name, query, keys, values, "self_bias")

    def cross(i: int, y: str) -> str:
        name = f"decoder.{i}.cross"
        query = e.linear(y, f"{name}.query")
        return look(name, query, f"cross_keys.{i}", f"cross_values.{i}", "cross_bias")

    x = e.flat(e.embed("target", "token_ids", "positions"))
    for i in range(e.config.decoder_layers):
        name = f"decoder.{i}"
        x = e.residual(x, f"{name}.attention", partial(attend, i))
        x = e.residual(x, f"{name}.cross", partial(cross, i))
        x = e.feed_forward(x, name)
    log_probs = g.op("LogSoftmax", e.logits(e.norm(x, "decoder.norm")), axis=-1)
    best, ids = g.ops("TopK", log_probs, "num_candidates", into=["", ""], axis=-1)
    shape = g.op("Concat", g.op("Shape", "token_ids"), "num_candidates", axis=0)
    g.op("Reshape", best, shape, into="candidate_log_probs")
    g.op("Reshape", ids, shape, into="candidate_ids")


def _attention(e: Emitter) -> None:
    g = e.graph
    pad = g.constant(e.config.pad_id, np.int32)
    axes = g.constant([1, 2], np.int64)
    hidden = g.constant(HIDDEN, np.float32)

    def padding_bias(ids: str) -> str:
        is_padding = g.op("Cast", g.op("Equal", ids, pad), to=onnx.TensorProto.FLOAT)
        return g.op("Mul", g.op("Unsqueeze", is_padding, axes), hidden)

    source_bias = padding_bias("source_ids")
    place = e.range_of("target_input_ids")
    future = g.op("Greater", place, g.op("Transpose", place, perm=[1, 0]))
    future_bias = g.op("Mul", g.op("Cast", future, to=onnx.TensorProto.FLOAT), hidden)
    target_bias = g.op("Add", padding_bias("target_input_ids"), future_bias)
    source_shape = e.shape_with("source_ids", *e.head_sizes)
    target_shape = e.shape_with("target_input_ids", *e.head_sizes)
    maps: dict[str, list[str]] = {"encoder": [], "decoder": [], "cross": []}

    def look(kind: str, name: str, query: str, key: str, value: str, bias: str) -> str:
        swapped = g.op("Transpose", key, perm=[0, 1, 3, 2])
        scale = g.constant(1 / math.sqrt(e.config.head_width), np.float32)
        scores = g.op("Add", g.op("Mul", g.op("MatMul", query, swapped), scale), bias)
        weights = g.op("Softmax", scores, axis=-1)
        maps[kind].append(g.op("Unsqueeze", weights, g.constant([1], np.int64)))
        joined = g.op("Transpose", g.op("MatMul", weights, value), perm=[0, 2, 1, 3])
        return e.linear(e.flat(joined), f"{name}.output")

    def attend(kind: str, name: str, shape: str, bias: str, y: str) -> str:
        parts = e.split(e.linear(y, f"{name}.query_key_value"), 3)
        query, key, value = (e.heads(part, shape) for part in parts)
        return look(kind, name, query, key, value, bias)

    def cross(memory: str, name: str, y: str) -> str:
        parts = e.split(e.linear(memory, f"{name}.key_value"), 2)
        key, value = (e.heads(part, source_shape) for part in parts)
        query = e.heads(e.linear(y, f"{name}.query"), target_shape)
        return look("cross", name, query, key, value, source_bias)

    x = e.flat(e.embed("source", "source_ids", e.range_of("source_ids")))
    for i in range(e.config.encoder_layers):
        name = f"encoder.{i}.attention"
        x = e.residual(x, name, partial(attend, "encoder", name, source_shape, source_bias))
        x = e.feed_forward(x, f"encoder.{i}")
    memory = e.norm(x, "encoder.norm")

    x = e.flat(e.embed("target", "target_input_ids", place))
    for i in range(e.config.decoder_layers):
        name = f"decoder.{i}.attention"
        x = e.residual(x, name, partial(attend, "decoder", name, target_shape, target_bias))
        name = f"decoder.{i}.cross"
        x = e.residual(x, name, partial(cross, memory, name))
        x = e.feed_forward(x, f"decoder.{i}")
    log_probs = g.op("LogSoftmax", e.logits(e.norm(x, "decoder.norm")), axis=-1)
    expected = g.op("Cast", g.reshape("target_output_ids", -1, 1), to=onnx.TensorProto.INT64)
    g.op(
        "Reshape",
        g.op("GatherElements", log_probs, expected, axis=1),
        g.op("Shape", "target_output_ids"),
        into="target_log_probs",
    )
    for kind, layers in maps.items():
        g.op("Concat", *layers, axis=1, into=f"{kind}_attention")
