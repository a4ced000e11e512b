"""Transformer layers as ONNX subgraphs, shared by all graphs of a bundle, in each precision.

Read beside ``models.transformer``: the same network, with the fused matrices of ``weights``. Shape
legend as there; rows of several sentences are flattened to ``R`` for linear layers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import onnx

from models.bundle.manifest import Precision
from models.export.builder import MICROSOFT, GraphBuilder
from models.export.weights import FP16_LOWEST, LARGEST_INPUT
from models.transformer.config import TransformerConfig

HIDDEN = -1e9
"""Mask value added to a score: far below any score, and finite, so that no NaN arises."""
HIDDEN_FP16 = -6e4
"""Mask value for fp16, whose lowest number is about -65,504."""
_FLOAT, _FLOAT16 = onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16


@dataclass(frozen=True, slots=True)
class Emitter:
    """Emits the layers that the graphs are composed of."""

    graph: GraphBuilder
    config: TransformerConfig
    precision: Precision
    _seen: dict[tuple[str, bytes, bytes], str] = field(default_factory=dict)
    """Already quantised inputs, by scale and zero point: several matrices may read the same one."""
    _dequantised: dict[str, str] = field(default_factory=dict)
    """Weights of an int8 file that a graph in fp16 reads."""

    @property
    def branches(self) -> bool:
        """Whether graphs skip work by branches. On a GPU a branch costs more than the work."""
        return self.precision != "fp16"

    def embed(self, side: str, ids: str, positions: str) -> str:
        """``[…]`` ids and positions to ``[…, W]``: embedding (· √W) + position."""
        g, config = self.graph, self.config
        table = "source" if side == "source" and config.tying != "all" else "target"
        embedded = g.op("Gather", self.weight(f"{table}.weight"), ids)
        if self.precision == "int8":
            embedded = g.op("Cast", embedded, to=onnx.TensorProto.FLOAT)
            scale = g.op("Gather", g.weight(f"{table}.weight_scale"), ids)
            embedded = g.op("Mul", embedded, g.unsqueeze(scale, -1))
        if config.scaled_embeddings:
            embedded = g.op("Mul", embedded, self.number(math.sqrt(config.width)))
        own = side == "target" and g.has_weight("target_position_table")
        positions_PW = self.weight("target_position_table" if own else "position_table")
        at = g.op("Gather", positions_PW, positions)
        return g.op("Add", embedded, at)

    def number(self, value: float) -> str:
        """A scalar of the activations' type."""
        return self.graph.constant(value, np.float16 if self.precision == "fp16" else np.float32)

    def linear(self, x: str, name: str, reads: str) -> str:
        """``[R, inputs]`` to ``[R, outputs]``; ``reads`` names the input, as in ``calibration``."""
        g = self.graph
        if self.precision == "int8":
            products = []
            for part in self._parts(name):
                scale, zero = self._input(part, reads)
                quantised = self._quantised(x, scale, zero)
                products.append(self._integer_product(quantised, scale, zero, part))
            return products[0] if len(products) == 1 else g.op("Concat", *products, axis=-1)
        return g.op("Gemm", x, *self.matrix(name, reads), transB=1)

    def matrix(self, name: str, reads: str) -> list[str]:
        """A matrix, and its bias if it has one."""
        g, parts = self.graph, self._parts(name)
        found = [[self.weight(f"{part}.weight") for part in parts]]
        if g.has_weight(f"{parts[0]}.bias"):
            found.append([self.weight(f"{part}.bias", reads) for part in parts])
        return [each[0] if len(each) == 1 else g.op("Concat", *each, axis=0) for each in found]

    def _parts(self, name: str) -> list[str]:
        """A matrix; or the matrices that it would be of, whose inputs have different scales."""
        g = self.graph
        if not g.has_weight(f"{name}.0.weight"):
            return [name]
        numbered = (f"{name}.{i}" for i in itertools.count())
        return list(itertools.takewhile(lambda part: g.has_weight(f"{part}.weight"), numbered))

    def weight(self, name: str, reads: str = "") -> str:
        """A weight in the graph's precision; ``reads`` names the input of a bias's matrix.

        A graph in fp16 may share the file of the int8 graphs. Its weights are then dequantised by
        nodes of constants only, which ONNX Runtime computes once, when it opens the graph.
        """
        g = self.graph
        if self.precision != "fp16" or g.dtype(name) == np.float16:
            return g.weight(name)
        if name not in self._dequantised:
            self._dequantised[name] = g.op("Cast", self._float(name, reads), to=_FLOAT16)
        return self._dequantised[name]

    def _float(self, name: str, reads: str) -> str:
        """A weight of an int8 file in fp32."""
        g = self.graph
        if g.dtype(name) == np.int8:
            scale = g.unsqueeze(g.weight(f"{name}_scale"), -1)
            return g.op("Mul", g.op("Cast", g.weight(name), to=_FLOAT), scale)
        if g.dtype(name) == np.int32:
            # Biases are in units of the product.
            matrix = name.removesuffix(".bias")
            input_scale, _ = self._input(matrix, reads)
            scale = g.op("Mul", g.weight(f"{matrix}.weight_scale"), input_scale)
            bias = g.op("Mul", g.op("Cast", g.weight(name), to=_FLOAT), scale)
            return g.op("Max", bias, g.constant(FP16_LOWEST, np.float32))
        return g.weight(name)

    def _input(self, name: str, reads: str) -> tuple[str, str]:
        """Scale and zero point of the input of a matrix, which may have its own."""
        g = self.graph
        owner = name if g.has_weight(f"{name}.input_scale") else reads
        return g.weight(f"{owner}.input_scale"), g.weight(f"{owner}.input_zero")

    def _quantised(self, x: str, scale: str, zero: str) -> str:
        key = x, self.graph.array(scale).tobytes(), self.graph.array(zero).tobytes()
        if key not in self._seen:
            self._seen[key] = self.graph.op("QuantizeLinear", x, scale, zero)
        return self._seen[key]

    def _integer_product(
        self, x: str, scale: str, zero: str, name: str, rows: str = "", into: tuple[str, ...] = ()
    ) -> str:
        """x·Wᵀ of quantised x, as float, or quantised again if ``into`` has scale and zero point.

        ``rows`` are the ids of the rows of W to use; empty means all of them.
        """
        g = self.graph
        parts = [g.weight(f"{name}.{part}") for part in ("weight", "weight_scale", "weight_zero")]
        bias = g.weight(f"{name}.bias") if g.has_weight(f"{name}.bias") else ""
        if rows:
            parts = [g.op("Gather", part, rows) for part in parts]
            bias = bias and g.op("Gather", bias, rows)
        trailing = (bias, *into) if bias or into else ()
        return g.op("QGemm", x, scale, zero, *parts, *trailing, domain=MICROSOFT, transB=1)

    def norm(self, x: str, name: str) -> str:
        g = self.graph
        if not g.has_weight(f"{name}.scale"):
            return x
        scale, bias = self.weight(f"{name}.scale"), self.weight(f"{name}.bias")
        return g.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=self.config.norm_epsilon)

    def residual(self, x: str, name: str, sublayer: Callable[[str], str]) -> str:
        g = self.graph
        if self.config.norm == "before":
            return g.op("Add", x, sublayer(self.norm(x, f"{name}.norm")))
        return self.norm(g.op("Add", x, sublayer(x)), f"{name}.norm")

    def feed_forward(self, x: str, layer: str) -> str:
        """The feed-forward sub-layer of a layer, with residual and norm."""
        name = f"{layer}.feed_forward"

        def inner_and_outer(y: str) -> str:
            if self.precision != "int8" or self.config.activation != "relu":
                return self.linear(self._inner(layer, y), f"{name}.outer", f"{name}.outer")
            # Calibration has seen no negative value, so the zero point is 0, which clips them:
            # quantising is the ReLU.
            scale, zero = self._input(f"{name}.inner", name)
            into = self._input(f"{name}.outer", f"{name}.outer")
            quantised = self._quantised(y, scale, zero)
            inner = self._integer_product(quantised, scale, zero, f"{name}.inner", into=into)
            if self.graph.has_weight(LARGEST_INPUT):
                inner = self.graph.op("Clip", inner, "", self.graph.weight(LARGEST_INPUT))
            return self._integer_product(inner, *into, f"{name}.outer")

        return self.residual(x, name, inner_and_outer)

    def fused_decoder(
        self, x: str, first: Callable[[int, str], str], cross: Callable[[int, str], str]
    ) -> str:
        """The layers of the decoder and its last norm, ``[R, W]``, with few launches on a GPU.

        One operator adds the bias of a sub-layer's last product and the residual, and normalises.
        ``first`` and ``cross`` take the number of a layer and its input. They return joined heads,
        and ``first`` the output of SSRU, which no product follows.
        """
        g, before = self.graph, self.config.norm == "before"
        parts: list[tuple[str, Callable[[str], str], str | None]] = []
        for i in range(self.config.decoder_layers):
            name = f"decoder.{i}"
            own = "recurrence" if self.config.recurrent else "attention"
            output = None if self.config.recurrent else f"{name}.{own}.output"
            parts += [
                (f"{name}.{own}", partial(first, i), output),
                (f"{name}.cross", partial(cross, i), f"{name}.cross.output"),
                (f"{name}.feed_forward", partial(self._inner, name), f"{name}.feed_forward.outer"),
            ]
        norms = [f"{name}.norm" for name, _, _ in parts]
        y = self.norm(x, norms[0]) if before else x
        if before:
            norms = [*norms[1:], "decoder.norm"]
        for (_, sublayer, output), norm in zip(parts, norms, strict=True):
            added = [self.weight(f"{norm}.scale"), self.weight(f"{norm}.bias")]
            product = sublayer(y)
            if output is not None:
                if g.has_weight(f"{output}.bias"):
                    added.append(self.weight(f"{output}.bias", output))
                product = g.op("Gemm", product, self.weight(f"{output}.weight"), transB=1)
            y, total = g.ops(
                "SkipLayerNormalization",
                x,
                product,
                *added,
                domain=MICROSOFT,
                into=["", None, None, ""],
                epsilon=self.config.norm_epsilon,
            )
            x = total if before else y
        return y if before else self.norm(x, "decoder.norm")

    def _inner(self, layer: str, y: str) -> str:
        name = f"{layer}.feed_forward"
        return self.activation(self.linear(y, f"{name}.inner", name))

    def activation(self, x: str) -> str:
        """The activation as one node. QuickGelu is x · sigmoid(alpha · x); SiLU is alpha = 1."""
        match self.config.activation:
            case "relu":
                return self.graph.op("Relu", x)
            case "silu":
                return self.graph.op("QuickGelu", x, domain=MICROSOFT, alpha=1.0)
            case "gelu":
                return self.graph.op("Gelu", x)

    def recur(self, i: int, y: str, reads: str, writes: str) -> str:
        """SSRU with the states of the rows: ``reads`` are entries, ``writes`` the same as lines."""
        g = self.graph
        gate, added = self.gate_and_added(i, y)
        change = g.op("Sub", g.op("Gather", f"state.{i}", reads), added)
        state = g.op("Add", added, g.op("Mul", gate, change))
        # Only after all rows have read: its input depends on what they have read.
        g.op("ScatterND", f"state.{i}", writes, state, into=f"updated_state.{i}")
        return g.op("Relu", state)

    def gate_and_added(self, i: int, y: str) -> tuple[str, str]:
        """Gate of SSRU and new content, each ``[R, W]``, of a decoder layer's input."""
        name = f"decoder.{i}.recurrence"
        added, gate = self.split(self.linear(y, f"{name}.input_gate", name), 2)
        return self.graph.op("Sigmoid", gate), added

    def split(self, x: str, parts: int) -> list[str]:
        return self.graph.ops("Split", x, into=[""] * parts, axis=-1, num_outputs=parts)

    def attention(self, *inputs: str) -> str:
        """The joined heads. The inputs: query, keys, values, none, visible keys, bias."""
        return self.graph.op(
            "MultiHeadAttention", *inputs, domain=MICROSOFT, num_heads=self.config.heads
        )

    def extend(self, i: int, parts: Sequence[str], shape: str, indices: str) -> Iterator[str]:
        """The caches of a layer, with keys and values of this step, ``[R, W]``, scattered in."""
        g = self.graph
        for kind, part in zip(("keys", "values"), parts, strict=True):
            own = f"self_{kind}.{i}"
            yield g.op(
                "ScatterND", own, indices, g.op("Reshape", part, shape), into=f"updated_{own}"
            )

    def heads(self, x: str, shape: str) -> str:
        """``[R, W]`` to ``[B, H, positions, D]``; ``shape`` holds [B, positions, H, D]."""
        g = self.graph
        return g.op("Transpose", g.op("Reshape", x, shape), perm=[0, 2, 1, 3])

    def flat(self, x: str) -> str:
        return self.graph.reshape(x, -1, self.config.width)

    def shape_with(self, ids: str, *sizes: int) -> str:
        """The shape of ``ids`` with further dimensions appended."""
        g = self.graph
        return g.op("Concat", g.op("Shape", ids), g.ints(*sizes), axis=0)

    def range_of(self, ids: str) -> str:
        """0, 1, … for each position of ``ids``, as ``[1, positions]``."""
        g = self.graph
        length = g.op("Shape", ids, start=1, end=2)
        scalar = g.op("Squeeze", length)
        zero, one = g.constant(0, np.int64), g.constant(1, np.int64)
        return g.unsqueeze(g.op("Range", zero, scalar, one), 0)

    @property
    def missing_rows(self) -> int:
        """Rows that make the number of logits a multiple of 8."""
        return -self.config.target_vocabulary % 8

    def quantise_for_logits(self, x: str) -> None:
        """Quantise x outside of the branches, so that each branch can compute ``logits`` of it."""
        self._quantised(x, *self._input(self._output_matrix, "generator"))

    @property
    def _output_matrix(self) -> str:
        return "generator" if self.config.tying == "none" else "target"

    def logits(self, x: str, rows: str = "") -> str:
        """``[R, W]`` to ``[R, V]`` as float; only for some ids if ``rows`` names them."""
        g = self.graph
        name = self._output_matrix
        if self.precision == "int8":
            scale, zero = self._input(name, "generator")
            return self._integer_product(self._quantised(x, scale, zero), scale, zero, name, rows)
        parts = self.matrix(name, "generator")
        if rows:
            parts = [g.op("Gather", part, rows) for part in parts]
        missing = self.missing_rows if self.precision == "fp16" else 0
        if missing:
            # Rows of logits are then aligned for tensor cores; no search chooses the added ones.
            matrix, *bias = parts
            added = np.zeros((missing, self.config.width), np.float16)
            if not bias:
                none = np.zeros(self.config.target_vocabulary, np.float16)
                bias = [g.tensor("no_output_bias", none)]
            hidden = g.constant(np.full(missing, HIDDEN_FP16), np.float16)
            parts = [
                g.op("Concat", matrix, g.tensor("added_rows", added), axis=0),
                g.op("Concat", *bias, hidden, axis=0),
            ]
        product = g.op("Gemm", x, *parts, transB=1)
        if self.precision == "fp16":
            return g.op("Cast", product, to=onnx.TensorProto.FLOAT)
        return product

    @property
    def head_sizes(self) -> tuple[int, int]:
        return self.config.heads, self.config.head_width
