"""The Transformer as a plain NumPy forward pass: the readable reference of the emitted graphs.

The same network as ``models.transformer``, for one sentence at a time and without torch. Weights
have the names of that network's state dict.

Shape legend: S source positions, T target positions, K keys, W width, H heads, D width of a head,
V vocabulary. ``...`` are the rows of a beam, or no dimension.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from models.transformer.config import Activation, Positions, TransformerConfig

FloatArray = NDArray[np.float32]

_ERF = np.frompyfunc(math.erf, 1, 1)


def relu(x: FloatArray) -> FloatArray:
    raised: FloatArray = np.maximum(x, np.float32(0))
    return raised


def sigmoid(x: FloatArray) -> FloatArray:
    """1 / (1 + exp(-x)), written so that no exponential overflows."""
    found: FloatArray = np.float32(0.5) * (1 + np.tanh(np.float32(0.5) * x))
    return found


def silu(x: FloatArray) -> FloatArray:
    product: FloatArray = x * sigmoid(x)
    return product


def gelu(x: FloatArray) -> FloatArray:
    """x · Φ(x) with the exact error function."""
    erf = _ERF(x / math.sqrt(2)).astype(np.float32)
    product: FloatArray = (0.5 * x * (1 + erf)).astype(np.float32)
    return product


ACTIVATIONS: Mapping[Activation, Callable[[FloatArray], FloatArray]] = {
    "relu": relu,
    "silu": silu,
    "gelu": gelu,
}


def softmax(scores: FloatArray) -> FloatArray:
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    found: FloatArray = raised / raised.sum(axis=-1, keepdims=True)
    return found


def log_softmax(logits: FloatArray) -> FloatArray:
    lowered = logits - logits.max(axis=-1, keepdims=True)
    found: FloatArray = lowered - np.log(np.exp(lowered).sum(axis=-1, keepdims=True))
    return found


def sinusoids(length: int, width: int, positions: Positions, first: int = 0) -> FloatArray:
    """The table ``[length, W]``, as ``models.transformer.layers.sinusoids`` documents it."""
    steps = width / 2 - 1 if positions == "sinusoidal_tensor2tensor" else width / 2
    rate_I = np.exp(np.arange(width // 2) * -(math.log(10_000) / steps))
    angle_PI = np.arange(first, first + length)[:, None] * rate_I
    waves = np.sin(angle_PI), np.cos(angle_PI)
    if positions == "sinusoidal":
        return np.stack(waves, axis=-1).reshape(length, width).astype(np.float32)
    return np.concatenate(waves, axis=-1).astype(np.float32)


def weight_shapes(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    """Name and shape of every weight, tied ones included, and of the tables of positions."""
    width, inner = config.width, config.feed_forward
    shapes: dict[str, tuple[int, ...]] = {
        "source_embedding.tokens.weight": (config.source_vocabulary, width),
        "source_embedding.positions": (config.max_length, width),
        "target_embedding.tokens.weight": (config.target_vocabulary, width),
        "target_embedding.positions": (config.max_length, width),
        "generator.weight": (config.target_vocabulary, width),
    }
    if config.output_bias:
        shapes["generator.bias"] = (config.target_vocabulary,)

    def linear(name: str, outputs: int, inputs: int) -> None:
        shapes[f"{name}.weight"], shapes[f"{name}.bias"] = (outputs, inputs), (outputs,)

    def norm(name: str) -> None:
        shapes[f"{name}.weight"] = shapes[f"{name}.bias"] = (width,)

    stacks = {
        "encoder": (config.encoder_layers, ("attention",)),
        "decoder": (
            config.decoder_layers,
            ("cross",) if config.recurrent else ("attention", "cross"),
        ),
    }
    for side, (layers, attentions) in stacks.items():
        for i in range(layers):
            if side == "decoder" and config.recurrent:
                shapes[f"{side}.{i}.recurrence.input.weight"] = (width, width)
                linear(f"{side}.{i}.recurrence.gate", width, width)
                norm(f"{side}.{i}.recurrence_residual.norm")
            for attention in attentions:
                for part in ("query", "key", "value", "output"):
                    linear(f"{side}.{i}.{attention}.{part}", width, width)
                norm(f"{side}.{i}.{attention}_residual.norm")
            linear(f"{side}.{i}.feed_forward.inner", inner, width)
            linear(f"{side}.{i}.feed_forward.outer", width, inner)
            norm(f"{side}.{i}.feed_forward_residual.norm")
        if config.norm == "before":
            norm(f"{side}_norm")
    return shapes


@dataclass(frozen=True, slots=True)
class KeysValues:
    """Keys and values of attention, each ``[..., H, K, D]``."""

    key: FloatArray
    value: FloatArray

    def append(self, other: KeysValues) -> KeysValues:
        return KeysValues(
            np.concatenate((self.key, other.key), axis=-2),
            np.concatenate((self.value, other.value), axis=-2),
        )

    def select(self, rows: Sequence[int]) -> KeysValues:
        return KeysValues(self.key[rows], self.value[rows])


@dataclass(frozen=True, slots=True)
class State:
    """State of a layer's SSRU after the last position: ``[..., W]``."""

    vector: FloatArray

    def select(self, rows: Sequence[int]) -> State:
        return State(self.vector[rows])


Past: TypeAlias = KeysValues | State
"""Memory of a decoder layer: keys and values of earlier positions, or the state of its SSRU."""


@dataclass(slots=True)
class AttentionMaps:
    """All attention maps of a teacher-forced pass, one per layer."""

    encoder: list[FloatArray] = field(default_factory=list)
    """Each ``[H, S, S]``."""
    decoder: list[FloatArray] = field(default_factory=list)
    """Each ``[H, T, T]``; none with SSRU."""
    cross: list[FloatArray] = field(default_factory=list)
    """Each ``[H, T, S]``."""


Watch = Callable[[str, FloatArray], None]
"""Called with the input of each matrix and its name, see ``models.export.calibration``."""


def unwatched(name: str, values: FloatArray) -> None:
    """A ``Watch`` that does nothing."""


class ReferenceTransformer:
    """A network of ``config`` with ``weights`` by name, as ``weight_shapes`` lists them.

    Raises ``ValueError`` with the names of weights that are missing, unknown or of another shape.
    """

    def __init__(self, config: TransformerConfig, weights: Mapping[str, FloatArray]) -> None:
        expected = weight_shapes(config)
        found = {name: array.shape for name, array in weights.items()}
        if wrong := sorted({name for name, _ in expected.items() ^ found.items()}):
            raise ValueError(
                "these weights are missing, unknown or of another shape than the configuration "
                f"implies: {', '.join(wrong[:4])}"
            )
        self.config = config
        self.weights = weights
        self._activation = ACTIVATIONS[config.activation]
        self._scale = np.float32(math.sqrt(config.width) if config.scaled_embeddings else 1.0)

    def release(self) -> None:
        """Frees the weights. The network keeps its configuration and cannot compute afterwards."""
        self.weights = {}

    def encode(
        self,
        source_ids: Sequence[int],
        maps: list[FloatArray] | None = None,
        watch: Watch = unwatched,
    ) -> FloatArray:
        """The encoder's output ``[S, W]``."""
        x_SW = self._embed("source", np.asarray(source_ids), 0)
        for i in range(self.config.encoder_layers):
            name = f"encoder.{i}"

            def attend(y: FloatArray, name: str = f"{name}.attention") -> FloatArray:
                query, own = self._query_and_own(name, y, watch)
                return self._attend(name, query, own, None, maps, watch)

            x_SW = self._residual(f"{name}.attention", x_SW, attend)
            x_SW = self._feed_forward(name, x_SW, watch)
        memory_SW = self._final_norm("encoder", x_SW)
        watch("memory", memory_SW)
        return memory_SW

    def source_keys_values(self, memory_SW: FloatArray) -> list[KeysValues]:
        """Keys and values of the source, ``[H, S, D]``, for each decoder layer."""
        return [
            KeysValues(
                self._heads(self._linear(f"decoder.{i}.cross.key", memory_SW)),
                self._heads(self._linear(f"decoder.{i}.cross.value", memory_SW)),
            )
            for i in range(self.config.decoder_layers)
        ]

    def decode(
        self,
        source: Sequence[KeysValues],
        target_ids: Sequence[int],
        maps: AttentionMaps | None = None,
        watch: Watch = unwatched,
    ) -> FloatArray:
        """The decoder's output ``[T, W]`` at each of ``target_ids``, which begin with bos."""
        visible_TT = np.tri(len(target_ids), dtype=np.bool_)
        x_TW = self._embed("target", np.asarray(target_ids), 0)
        for i in range(self.config.decoder_layers):
            x_TW, _ = self._decoder_layer(i, x_TW, source[i], None, visible_TT, None, maps, watch)
        x_TW = self._final_norm("decoder", x_TW)
        watch("generator", x_TW)
        return x_TW

    def step(
        self,
        tokens_R: NDArray[np.int64],
        position: int,
        source: Sequence[KeysValues],
        past: Sequence[Past | None],
        source_visible: NDArray[np.bool_] | None = None,
    ) -> tuple[FloatArray, list[Past]]:
        """Logits ``[R, V]`` of the token after ``tokens_R``, and what each layer keeps so far.

        ``source`` are ``[H, S, D]`` of all rows, or ``[R, H, S, D]`` of each, of which
        ``source_visible``, ``[R, 1, 1, S]``, are no padding.
        """
        x_R1W = self._embed("target", tokens_R[:, None], position)
        present: list[Past] = []
        for i in range(self.config.decoder_layers):
            x_R1W, own = self._decoder_layer(
                i, x_R1W, source[i], past[i], None, source_visible, None, unwatched
            )
            present.append(own)
        return self.project(self._final_norm("decoder", x_R1W)[:, 0]), present

    def project(self, x: FloatArray) -> FloatArray:
        """``[..., W]`` to logits ``[..., V]``."""
        logits: FloatArray = x @ self.weights["generator.weight"].T
        return logits + self.weights["generator.bias"] if self.config.output_bias else logits

    def attention_maps(
        self, source_ids: Sequence[int], target_ids: Sequence[int]
    ) -> tuple[FloatArray, AttentionMaps]:
        """Logits ``[T, V]`` of a teacher-forced pass, and all attention maps."""
        maps = AttentionMaps()
        source = self.source_keys_values(self.encode(source_ids, maps.encoder))
        return self.project(self.decode(source, target_ids, maps)), maps

    def _embed(self, side: str, ids: NDArray[Any], start: int) -> FloatArray:
        """``[..., T]`` to ``[..., T, W]``: embedding (times √W) plus position."""
        positions_PW = self.weights[f"{side}_embedding.positions"]
        end = start + ids.shape[-1]
        if end > len(positions_PW):
            raise ValueError(f"position {end} is beyond max_length {len(positions_PW)}")
        tokens: FloatArray = self.weights[f"{side}_embedding.tokens.weight"][ids]
        return tokens * self._scale + positions_PW[start:end]

    def _decoder_layer(
        self,
        i: int,
        x: FloatArray,
        source: KeysValues,
        past: Past | None,
        visible: NDArray[np.bool_] | None,
        source_visible: NDArray[np.bool_] | None,
        maps: AttentionMaps | None,
        watch: Watch,
    ) -> tuple[FloatArray, Past]:
        name = f"decoder.{i}"
        present: list[Past] = []

        def attend_to_itself(y: FloatArray) -> FloatArray:
            query, own = self._query_and_own(f"{name}.attention", y, watch)
            keys_values = own if past is None else cast(KeysValues, past).append(own)
            present.append(keys_values)
            own_maps = None if maps is None else maps.decoder
            return self._attend(f"{name}.attention", query, keys_values, visible, own_maps, watch)

        def recur(y: FloatArray) -> FloatArray:
            output, state = self._recur(f"{name}.recurrence", y, cast(State | None, past), watch)
            present.append(state)
            return output

        def attend_to_source(y: FloatArray) -> FloatArray:
            watch(f"{name}.cross", y)
            query = self._heads(self._linear(f"{name}.cross.query", y))
            own_maps = None if maps is None else maps.cross
            return self._attend(f"{name}.cross", query, source, source_visible, own_maps, watch)

        if self.config.recurrent:
            x = self._residual(f"{name}.recurrence", x, recur)
        else:
            x = self._residual(f"{name}.attention", x, attend_to_itself)
        x = self._residual(f"{name}.cross", x, attend_to_source)
        return self._feed_forward(name, x, watch), present[0]

    def _recur(
        self, name: str, y: FloatArray, past: State | None, watch: Watch
    ) -> tuple[FloatArray, State]:
        """SSRU of ``[..., T, W]``, one position after the other: ReLU of the states; the last."""
        watch(name, y)
        gate = sigmoid(self._linear(f"{name}.gate", y))
        added = (1 - gate) * self._product(f"{name}.input", y)
        state: FloatArray = np.zeros_like(y[..., 0, :]) if past is None else past.vector
        states = np.empty_like(y)
        for position in range(y.shape[-2]):
            state = gate[..., position, :] * state + added[..., position, :]
            states[..., position, :] = state
        return relu(states), State(state)

    def _query_and_own(
        self, name: str, y: FloatArray, watch: Watch
    ) -> tuple[FloatArray, KeysValues]:
        """Queries, keys and values of self-attention."""
        watch(name, y)
        query, key, value = (
            self._heads(self._linear(f"{name}.{part}", y)) for part in ("query", "key", "value")
        )
        return query, KeysValues(key, value)

    def _attend(
        self,
        name: str,
        query: FloatArray,
        memory: KeysValues,
        visible: NDArray[np.bool_] | None,
        maps: list[FloatArray] | None,
        watch: Watch,
    ) -> FloatArray:
        """softmax(QKᵀ/√D)·V of every head, joined and projected."""
        scores = query @ memory.key.swapaxes(-1, -2) / np.float32(math.sqrt(query.shape[-1]))
        if visible is not None:
            scores = np.where(visible, scores, np.float32(-np.inf))
        weights = softmax(scores)
        if maps is not None:
            maps.append(weights)
        joined = (weights @ memory.value).swapaxes(-2, -3)
        joined = joined.reshape(*joined.shape[:-2], self.config.width)
        watch(f"{name}.output", joined)
        return self._linear(f"{name}.output", joined)

    def _feed_forward(self, layer: str, x: FloatArray, watch: Watch) -> FloatArray:
        name = f"{layer}.feed_forward"

        def inner_and_outer(y: FloatArray) -> FloatArray:
            watch(name, y)
            inner = self._activation(self._linear(f"{name}.inner", y))
            watch(f"{name}.outer", inner)
            return self._linear(f"{name}.outer", inner)

        return self._residual(name, x, inner_and_outer)

    def _residual(
        self, name: str, x: FloatArray, sublayer: Callable[[FloatArray], FloatArray]
    ) -> FloatArray:
        norm = f"{name}_residual.norm"
        if self.config.norm == "before":
            return x + sublayer(self._norm(norm, x))
        return self._norm(norm, x + sublayer(x))

    def _final_norm(self, side: str, x: FloatArray) -> FloatArray:
        return self._norm(f"{side}_norm", x) if self.config.norm == "before" else x

    def _norm(self, name: str, x: FloatArray) -> FloatArray:
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = np.square(centred).mean(axis=-1, keepdims=True)
        normalised: FloatArray = centred / np.sqrt(variance + np.float32(self.config.norm_epsilon))
        return normalised * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def _linear(self, name: str, x: FloatArray) -> FloatArray:
        return self._product(name, x) + self.weights[f"{name}.bias"]

    def _product(self, name: str, x: FloatArray) -> FloatArray:
        # NumPy multiplies each matrix of [R, 1, W] on its own, which reads the weight R times.
        rows = x.reshape(-1, x.shape[-1])
        product: FloatArray = rows @ self.weights[f"{name}.weight"].T
        return product.reshape(*x.shape[:-1], -1)

    def _heads(self, x: FloatArray) -> FloatArray:
        """``[..., T, W]`` to ``[..., H, T, D]``."""
        return x.reshape(*x.shape[:-1], self.config.heads, -1).swapaxes(-2, -3)
