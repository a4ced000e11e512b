"""The three ONNX graphs of a bundle; ``models.bundle.graphs`` has their signatures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import onnx

from models.bundle.graphs import ENTROPIES, signature
from models.bundle.manifest import Dimensions, GraphName, Precision
from models.export.builder import GraphBuilder, WeightFile
from models.export.emitter import HIDDEN, HIDDEN_FP16, Emitter
from models.transformer.config import TransformerConfig


def build_graph(
    name: GraphName, weights: WeightFile, config: TransformerConfig, precision: Precision
) -> onnx.ModelProto:
    """One graph of a bundle; its weights stay in the shared file."""
    emitter = Emitter(GraphBuilder(weights), config, precision)
    match name:
        case "encoder":
            _encoder(emitter)
        case "step":
            _step(emitter)
        case "attention":
            _attention(emitter)
    return emitter.graph.model(name, signature(name, dimensions_of(config), precision))


def dimensions_of(config: TransformerConfig) -> Dimensions:
    return Dimensions(
        encoder_layers=config.encoder_layers,
        decoder_layers=config.decoder_layers,
        width=config.width,
        heads=config.heads,
        feed_forward=config.feed_forward,
        vocabulary_size=config.target_vocabulary,
        source_vocabulary_size=(
            None
            if config.source_vocabulary == config.target_vocabulary
            else config.source_vocabulary
        ),
        decoder=config.decoder,
    )


def _encoder(e: Emitter) -> None:
    g = e.graph
    is_padding = g.op("Equal", "source_ids", g.constant(e.config.pad_id, np.int32))
    visible = g.op("Cast", g.op("Not", is_padding), to=onnx.TensorProto.INT32)
    width_shape = e.shape_with("source_ids", e.config.width)

    def attend(name: str, y: str) -> str:
        parts = e.split(e.linear(y, f"{name}.query_key_value", name), 3)
        query, key, value = (g.op("Reshape", part, width_shape) for part in parts)
        joined = e.attention(query, key, value, "", visible)
        return e.linear(e.flat(joined), f"{name}.output", f"{name}.output")

    x = e.flat(e.embed("source", "source_ids", e.range_of("source_ids")))
    for i in range(e.config.encoder_layers):
        name = f"encoder.{i}.attention"
        x = e.feed_forward(e.residual(x, name, partial(attend, name)), f"encoder.{i}")
    memory = e.norm(x, "encoder.norm")
    shape = e.shape_with("source_ids", *e.head_sizes)
    for i in range(e.config.decoder_layers):
        key, value = e.split(e.linear(memory, f"decoder.{i}.cross.key_value", "memory"), 2)
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

    def look(query: str, keys: str, values: str, bias: str) -> str:
        """Attention of a sentence's rows over the sentence's shared cache: the joined heads."""
        query = g.op("Reshape", query, width_shape)
        return e.flat(e.attention(query, keys, values, "", "", bias))

    first = _recurrence(e) if e.config.recurrent else _self_attention(e, look)

    def cross(i: int, y: str) -> str:
        name = f"decoder.{i}.cross"
        query = e.linear(y, f"{name}.query", name)
        if i == e.config.decoder_layers - 1:
            _source_attention(e, query, f"cross_keys.{i}")
        return look(query, f"cross_keys.{i}", f"cross_values.{i}", "cross_bias")

    x = e.flat(e.embed("target", "token_ids", "positions"))
    if e.precision == "fp16":
        _candidates(e, _logits(e, e.fused_decoder(x, first, cross)))
        return

    def with_output(sublayer: Callable[[int, str], str], i: int, name: str, y: str) -> str:
        return e.linear(sublayer(i, y), f"{name}.output", f"{name}.output")

    for i in range(e.config.decoder_layers):
        layer = f"decoder.{i}"
        if e.config.recurrent:
            x = e.residual(x, f"{layer}.recurrence", partial(first, i))
        else:
            name = f"{layer}.attention"
            x = e.residual(x, name, partial(with_output, first, i, name))
        name = f"{layer}.cross"
        x = e.residual(x, name, partial(with_output, cross, i, name))
        x = e.feed_forward(x, layer)
    _candidates(e, _logits(e, e.norm(x, "decoder.norm")))


def _self_attention(
    e: Emitter, look: Callable[[str, str, str, str], str]
) -> Callable[[int, str], str]:
    """Emits self-attention over the sentence's cache, for the number of a layer and its input."""
    head_shape = e.shape_with("token_ids", *e.head_sizes)

    def attend(i: int, y: str) -> str:
        name = f"decoder.{i}.attention"
        query, *parts = e.split(e.linear(y, f"{name}.query_key_value", name), 3)
        keys, values = e.extend(i, parts, head_shape, "write_indices")
        return look(query, keys, values, "self_bias")

    return attend


def _recurrence(e: Emitter) -> Callable[[int, str], str]:
    """Emits SSRU with the states of the rows, for the number of a layer and its input."""
    g = e.graph
    reads, writes = g.reshape("state_reads", -1), g.reshape("state_writes", -1, 1)
    return lambda i, y: e.recur(i, y, reads, writes)


def _source_attention(e: Emitter, query: str, keys: str) -> None:
    """``[B, K, S]``: attention of each row to the source, averaged over heads. Optional branch."""
    g = e.graph

    def computed() -> tuple[str]:
        heads = e.heads(query, e.shape_with("token_ids", *e.head_sizes))
        swapped = g.op("Transpose", keys, perm=[0, 1, 3, 2])
        scale = e.number(1 / math.sqrt(e.config.head_width))
        scores = g.op("Mul", g.op("MatMul", heads, swapped), scale)
        weights = g.op("Softmax", g.op("Add", scores, "cross_bias"), axis=-1)
        mean = g.op("ReduceMean", weights, g.ints(1), keepdims=0)
        return (g.op("Cast", mean, to=onnx.TensorProto.FLOAT),)

    def nothing() -> tuple[str]:
        return (g.op("Identity", g.constant(np.zeros((0, 0, 0)), np.float32)),)

    if e.branches:
        into, element = ["source_attention"], [onnx.TensorProto.FLOAT]
        g.choose("attention_wanted", computed, nothing, into, element)
    else:
        g.op("Identity", *computed(), into="source_attention")


def _logits(e: Emitter, x: str) -> str:
    """``[R, W]`` to logits over the whole vocabulary, or over the shortlist of the batch.

    ``shortlist_bias`` masks the columns that are not in a sentence's own shortlist, so that the
    shortlists of its batch neighbours have no effect on it.
    """
    g = e.graph
    if not e.branches:
        return e.logits(x)
    if e.precision == "int8":
        e.quantise_for_logits(x)
    rest = g.ints(-1)

    def some() -> tuple[str]:
        logits = e.logits(x, "shortlist_ids")
        shape = g.op("Concat", g.op("Shape", "token_ids"), rest, axis=0)
        own_bias = g.unsqueeze("shortlist_bias", 1)
        biased = g.op("Add", g.op("Reshape", logits, shape), own_bias)
        columns = g.op("Shape", "shortlist_ids")
        return (g.op("Reshape", biased, g.op("Concat", rest, columns, axis=0)),)

    def whole() -> tuple[str]:
        return (e.logits(x),)

    (logits,) = g.choose("shortlist_wanted", some, whole, [""], [onnx.TensorProto.FLOAT])
    return logits


def _candidates(e: Emitter, logits: str) -> None:
    """Edit the logits if requested; then the best candidates of each row, and requested scores."""
    g = e.graph

    def best_of(values: str) -> tuple[str, str, str]:
        best, columns = g.ops("TopK", values, "num_candidates", into=["", ""], axis=-1)
        asked = g.op("GatherElements", values, g.reshape("asked_columns", -1, 1), axis=1)
        return best, columns, asked

    def of(logits: str) -> tuple[str, str, str]:
        return best_of(g.op("LogSoftmax", logits, axis=-1))

    def plain() -> Sequence[str]:
        # The most likely token has the largest logit.
        return g.choose(
            "scores_wanted", lambda: of(logits), lambda: best_of(logits), [""] * 3, elements
        )

    def edited() -> tuple[str, str, str]:
        """Logits edited at ``edit_indices`` (row, column): a penalty divides positive and
        multiplies negative logits (Keskar et al. 2019, section 4.1), then a bias is added."""
        old = g.op("GatherND", logits, "edit_indices")
        penalised = g.op(
            "Where",
            g.op("Less", old, g.constant(0, np.float32)),
            g.op("Mul", old, "edit_penalties"),
            g.op("Div", old, "edit_penalties"),
        )
        new = g.op("Add", penalised, "edit_biases")
        return of(g.op("ScatterND", logits, "edit_indices", new))

    elements = [onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.FLOAT]
    if e.branches:
        # Editing copies all logits, hence the branch.
        found = g.choose("edits_wanted", edited, plain, [""] * 3, elements)
    else:
        found = list(edited())
    rows_shape = g.op("Shape", "token_ids")
    shape = g.op("Concat", rows_shape, "num_candidates", axis=0)
    g.op("Reshape", found[0], shape, into="candidate_log_probs")
    g.op("Reshape", found[1], shape, into="candidate_columns")
    g.op("Reshape", found[2], rows_shape, into="asked_log_probs")


def _attention(e: Emitter) -> None:
    g = e.graph
    pad = g.constant(e.config.pad_id, np.int32)
    hidden = e.number(HIDDEN_FP16 if e.precision == "fp16" else HIDDEN)
    element = onnx.TensorProto.FLOAT16 if e.precision == "fp16" else onnx.TensorProto.FLOAT

    def padding_bias(ids: str) -> str:
        is_padding = g.op("Cast", g.op("Equal", ids, pad), to=element)
        return g.op("Mul", g.unsqueeze(is_padding, 1, 2), hidden)

    source_bias = padding_bias("source_ids")
    place = e.range_of("target_input_ids")
    future = g.op("Greater", place, g.op("Transpose", place, perm=[1, 0]))
    future_bias = g.op("Mul", g.op("Cast", future, to=element), hidden)
    target_bias = g.op("Add", padding_bias("target_input_ids"), future_bias)
    source_shape = e.shape_with("source_ids", *e.head_sizes)
    target_shape = e.shape_with("target_input_ids", *e.head_sizes)
    maps: dict[str, list[str]] = {"encoder": [], "decoder": [], "cross": []}

    def look(kind: str, name: str, query: str, key: str, value: str, bias: str) -> str:
        swapped = g.op("Transpose", key, perm=[0, 1, 3, 2])
        scale = e.number(1 / math.sqrt(e.config.head_width))
        scores = g.op("Add", g.op("Mul", g.op("MatMul", query, swapped), scale), bias)
        weights = g.op("Softmax", scores, axis=-1)
        maps[kind].append(g.unsqueeze(weights, 1))
        joined = g.op("Transpose", g.op("MatMul", weights, value), perm=[0, 2, 1, 3])
        return e.linear(e.flat(joined), f"{name}.output", f"{name}.output")

    def attend(kind: str, name: str, shape: str, bias: str, y: str) -> str:
        parts = e.split(e.linear(y, f"{name}.query_key_value", name), 3)
        query, key, value = (e.heads(part, shape) for part in parts)
        return look(kind, name, query, key, value, bias)

    def cross(memory: str, name: str, y: str) -> str:
        parts = e.split(e.linear(memory, f"{name}.key_value", "memory"), 2)
        key, value = (e.heads(part, source_shape) for part in parts)
        query = e.heads(e.linear(y, f"{name}.query", name), target_shape)
        return look("cross", name, query, key, value, source_bias)

    x = e.flat(e.embed("source", "source_ids", e.range_of("source_ids")))
    for i in range(e.config.encoder_layers):
        name = f"encoder.{i}.attention"
        x = e.residual(x, name, partial(attend, "encoder", name, source_shape, source_bias))
        x = e.feed_forward(x, f"encoder.{i}")
    memory = e.norm(x, "encoder.norm")

    def recur(i: int, y: str) -> str:
        gate, added = e.gate_and_added(i, y)
        new = g.op("Mul", g.op("Sub", e.number(1.0), gate), added)
        shape = e.shape_with("target_input_ids", e.config.width)
        gate, new = (g.op("Reshape", each, shape) for each in (gate, new))
        sentences = g.op("Shape", "target_input_ids", start=0, end=1)
        start = g.op(
            "Expand", e.number(0.0), g.op("Concat", sentences, g.ints(e.config.width), axis=0)
        )

        def following(state: str, gate: str, new: str) -> str:
            return g.op("Add", g.op("Mul", gate, state), new)

        return g.op("Relu", e.flat(g.scan(start, (gate, new), following, element, axis=1)))

    x = e.flat(e.embed("target", "target_input_ids", place))
    for i in range(e.config.decoder_layers):
        if e.config.recurrent:
            x = e.residual(x, f"decoder.{i}.recurrence", partial(recur, i))
        else:
            name = f"decoder.{i}.attention"
            x = e.residual(x, name, partial(attend, "decoder", name, target_shape, target_bias))
        name = f"decoder.{i}.cross"
        x = e.residual(x, name, partial(cross, memory, name))
        x = e.feed_forward(x, f"decoder.{i}")
    log_probs = g.op("LogSoftmax", e.logits(e.norm(x, "decoder.norm")), axis=-1)
    expected = g.op("Cast", g.reshape("target_output_ids", -1, 1), to=onnx.TensorProto.INT64)
    information = g.op("Neg", g.op("Mul", g.op("Exp", log_probs), log_probs))
    rows_shape = g.op("Shape", "target_output_ids")
    for values, into in (
        (g.op("GatherElements", log_probs, expected, axis=1), "target_log_probs"),
        (g.op("ReduceSum", information, g.ints(-1), keepdims=0), ENTROPIES),
    ):
        g.op("Reshape", values, rows_shape, into=into)
    for kind, layers in maps.items():
        if not layers:
            continue
        g.op("Concat", *layers, axis=1, into=f"{kind}_attention")
