"""The Transformer: encoding, teacher-forced decoding, and cached decoding step by step.

See ``models.transformer.attention`` for the shape legend and the meaning of masks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from models.transformer.attention import (
    CAUSAL,
    KeysValues,
    Visible,
    padding_mask,
    subsequent_mask,
)
from models.transformer.config import TransformerConfig
from models.transformer.layers import DecoderLayer, Embedding, EncoderLayer, Past


@dataclass(frozen=True, slots=True)
class AttentionMaps:
    """All attention maps of one teacher-forced pass, one per layer."""

    encoder: tuple[Tensor, ...]
    """Each ``[B, H, S, S]``."""
    decoder: tuple[Tensor, ...]
    """Each ``[B, H, T, T]``; none with SSRU."""
    cross: tuple[Tensor, ...]
    """Each ``[B, H, T, S]``."""


@dataclass(slots=True)
class Cache:
    """Decoder cache: keys and values of the source, and what each layer keeps of the prefix."""

    source: list[KeysValues]
    source_visible: Tensor
    past: list[Past | None]
    length: int = 0

    def select(self, rows: Tensor) -> Cache:
        """The cache of the given rows, in that order; a row may be repeated."""
        return Cache(
            [layer.select(rows) for layer in self.source],
            self.source_visible.index_select(0, rows),
            [layer.select(rows) if layer is not None else None for layer in self.past],
            self.length,
        )


class Transformer(nn.Module):
    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.recomputing = False
        """Activation checkpointing: training keeps only the input of each layer and recomputes the
        layer in the backward pass (Chen et al., 2016, "Training Deep Nets with Sublinear Memory
        Cost"). Costs a third more work for a fraction of the memory."""
        source_tokens = nn.Embedding(config.source_vocabulary, config.width)
        target_tokens = (
            source_tokens
            if config.tying == "all"
            else nn.Embedding(config.target_vocabulary, config.width)
        )
        self.source_embedding = Embedding(source_tokens, config)
        self.target_embedding = Embedding(target_tokens, config)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        # In a pre-norm network, the output of the last layer is not normalised yet.
        last = config.norm == "before"
        epsilon = config.norm_epsilon
        self.encoder_norm = nn.LayerNorm(config.width, eps=epsilon) if last else nn.Identity()
        self.decoder_norm = nn.LayerNorm(config.width, eps=epsilon) if last else nn.Identity()
        self.generator = nn.Linear(config.width, config.target_vocabulary, bias=config.output_bias)
        if config.tying != "none":
            self.generator.weight = target_tokens.weight
        self._initialise()

    def _initialise(self) -> None:
        """Xavier for matrices; embeddings so that they have unit variance times √W."""
        embeddings = {id(m.weight) for m in self.modules() if isinstance(m, nn.Embedding)}
        for name, parameter in self.named_parameters():
            if id(parameter) in embeddings:
                nn.init.normal_(parameter, std=self.config.width**-0.5)
            elif parameter.dim() > 1 and not name.endswith("positions"):
                nn.init.xavier_uniform_(parameter)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    @property
    def encoder_layers(self) -> list[EncoderLayer]:
        return [cast(EncoderLayer, layer) for layer in self.encoder]

    @property
    def decoder_layers(self) -> list[DecoderLayer]:
        return [cast(DecoderLayer, layer) for layer in self.decoder]

    @property
    def num_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())

    def forward(self, source_BS: Tensor, target_BT: Tensor) -> Tensor:
        """Teacher-forced logits ``[B, T, V]`` of the token after each target position."""
        return self.project(self.decode(self.encode(source_BS), source_BS, target_BT))

    def encode(self, source_BS: Tensor, maps: list[Tensor] | None = None) -> Tensor:
        """The encoder's output ``[B, S, W]``."""
        visible = padding_mask(source_BS, self.config.pad_id)
        x_BSW = self.source_embedding(source_BS)
        for layer in self.encoder_layers:
            x_BSW = self._through(layer, x_BSW, visible, maps)
        normalised: Tensor = self.encoder_norm(x_BSW)
        return normalised

    def decode(
        self,
        memory_BSW: Tensor,
        source_BS: Tensor,
        target_BT: Tensor,
        maps: tuple[list[Tensor], list[Tensor]] | None = None,
        last_cross: list[Tensor] | None = None,
    ) -> Tensor:
        """The decoder's output at each target position, ``[B, T, W]``, before projection.

        Padding must stand at the end. The causal mask then hides it from every real position. A
        padding mask would exclude the fastest kernels. The output at padding is meaningless. With
        ``maps``, which are displayed, a padding mask is added. ``last_cross`` gets the last layer's
        map of the source, ``[B, H, T, S]``.
        """
        source_visible = padding_mask(source_BS, self.config.pad_id)
        visible: Visible = CAUSAL
        if maps is not None:
            visible = subsequent_mask(target_BT.size(1), target_BT.device) & padding_mask(
                target_BT, self.config.pad_id
            )
        x_BTW = self.target_embedding(target_BT)
        *others, last = self.decoder_layers
        of_last = maps if last_cross is None else (None, last_cross)
        for layer, its_maps in (*((layer, maps) for layer in others), (last, of_last)):
            x_BTW = self._through(
                _decoded, x_BTW, layer, memory_BSW, visible, source_visible, its_maps
            )
        normalised: Tensor = self.decoder_norm(x_BTW)
        return normalised

    def _through(self, layer: Callable[..., Tensor], x: Tensor, *others: object) -> Tensor:
        if self.recomputing and torch.is_grad_enabled():
            recomputed: Tensor = checkpoint(layer, x, *others, use_reentrant=False)
            return recomputed
        return layer(x, *others)

    def project(self, x: Tensor) -> Tensor:
        """``[…, W]`` to logits ``[…, V]``."""
        logits: Tensor = self.generator(x)
        return logits

    def attention_maps(self, source_BS: Tensor, target_BT: Tensor) -> tuple[Tensor, AttentionMaps]:
        """Logits ``[B, T, V]`` and all attention maps, computed with unfused attention."""
        encoder: list[Tensor] = []
        decoder: list[Tensor] = []
        cross: list[Tensor] = []
        memory_BSW = self.encode(source_BS, encoder)
        x_BTW = self.decode(memory_BSW, source_BS, target_BT, (decoder, cross))
        return self.project(x_BTW), AttentionMaps(tuple(encoder), tuple(decoder), tuple(cross))

    def start(self, source_BS: Tensor) -> Cache:
        """Encode the source and return the cache of an empty prefix."""
        memory_BSW = self.encode(source_BS)
        return Cache(
            [layer.cross.keys_values(memory_BSW) for layer in self.decoder_layers],
            padding_mask(source_BS, self.config.pad_id),
            [None] * len(self.decoder),
        )

    def step(self, tokens_B: Tensor, cache: Cache) -> Tensor:
        """Append one token per row to ``cache``; returns logits ``[B, V]`` of the next token."""
        x_BTW = self.target_embedding(tokens_B[:, None], start=cache.length)
        for i, layer in enumerate(self.decoder_layers):
            x_BTW, cache.past[i] = layer(
                x_BTW, cache.past[i], cache.source[i], None, cache.source_visible
            )
        cache.length += 1
        return self.project(self.decoder_norm(x_BTW)[:, 0])


def _decoded(
    x_BTW: Tensor,
    layer: DecoderLayer,
    memory_BSW: Tensor,
    visible: Visible,
    source_visible: Tensor,
    maps: tuple[list[Tensor] | None, list[Tensor]] | None,
) -> Tensor:
    source = layer.cross.keys_values(memory_BSW)
    decoded, _ = layer(x_BTW, None, source, visible, source_visible, maps)
    y_BTW: Tensor = decoded
    return y_BTW


def build(config: TransformerConfig, seed: int) -> Transformer:
    """A freshly initialised network, reproducible from ``seed``."""
    torch.manual_seed(seed)
    return Transformer(config)
