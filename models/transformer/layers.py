"""Encoder and decoder layers, embeddings, positions, feed-forward and residual connections."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias, cast

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from models.transformer.attention import KeysValues, MultiHeadAttention, Visible
from models.transformer.config import Activation, Positions, TransformerConfig
from models.transformer.recurrence import Recurrence, State

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "silu": functional.silu,
    "gelu": functional.gelu,
}


def sinusoids(
    length: int, width: int, positions: Positions = "sinusoidal", first: int = 0
) -> Tensor:
    """The table of positions ``first``, ``first + 1``, …: ``[length, W]``.

    ``sinusoidal``: PE(pos, 2i) = sin(pos / 10000^(2i/W)), PE(pos, 2i+1) = cos of the same (section
    3.5). ``sinusoidal_halves``: the same numbers, all sines before all cosines, as in Marian.
    ``sinusoidal_tensor2tensor``: also in halves, but the slowest of the W/2 waves is slower by
    10000 exactly, sin(pos / 10000^(i/(W/2 - 1))), as in tensor2tensor, fairseq and M2M100.
    """
    position_P1 = torch.arange(first, first + length, dtype=torch.float32)[:, None]
    steps = width / 2 - 1 if positions == "sinusoidal_tensor2tensor" else width / 2
    wave_I = torch.arange(width // 2, dtype=torch.float32)
    rate_I = torch.exp(wave_I * -(math.log(10_000) / steps))
    sine_PI, cosine_PI = torch.sin(position_P1 * rate_I), torch.cos(position_P1 * rate_I)
    if positions == "sinusoidal":
        return torch.stack((sine_PI, cosine_PI), dim=-1).flatten(1)
    return torch.cat((sine_PI, cosine_PI), dim=-1)


class Embedding(nn.Module):
    """Token embeddings (times √W), plus positions, then dropout (sections 3.4, 3.5, 5.4)."""

    positions: Tensor

    def __init__(self, tokens: nn.Embedding, config: TransformerConfig) -> None:
        super().__init__()
        self.tokens = tokens
        self.scale = math.sqrt(config.width) if config.scaled_embeddings else 1.0
        self.dropout = nn.Dropout(config.embedding_dropout)
        length, width = config.max_length, config.width
        if config.positions == "learned":
            self.positions = nn.Parameter(torch.randn(length, width) * width**-0.5)
        else:
            table_PW = sinusoids(length, width, config.positions, config.first_position)
            self.register_buffer("positions", table_PW, persistent=False)

    def forward(self, ids_BT: Tensor, start: int = 0) -> Tensor:
        """Embed tokens at positions ``start``, ``start + 1``, …: ``[B, T, W]``.

        Raises ``ValueError`` for a position beyond ``max_length``.
        """
        end = start + ids_BT.size(1)
        if end > len(self.positions):
            raise ValueError(f"position {end} is beyond max_length {len(self.positions)}")
        embedded: Tensor = self.tokens(ids_BT) * self.scale + self.positions[start:end]
        dropped: Tensor = self.dropout(embedded)
        return dropped


class FeedForward(nn.Module):
    """Position-wise max(0, xW₁ + b₁)W₂ + b₂ (equation 2), or with another activation."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.inner = nn.Linear(config.width, config.feed_forward)
        self.outer = nn.Linear(config.feed_forward, config.width)
        self.activation = ACTIVATIONS[config.activation]
        self.dropout = nn.Dropout(config.feed_forward_dropout)

    def forward(self, x_BTW: Tensor) -> Tensor:
        y: Tensor = self.outer(self.dropout(self.activation(self.inner(x_BTW))))
        return y


class Residual(nn.Module):
    """Residual connection: LayerNorm(x + Dropout(f(x))), or x + Dropout(f(LayerNorm(x)))."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.before = config.norm == "before"
        self.norm = nn.LayerNorm(config.width, eps=config.norm_epsilon)
        self.dropout = nn.Dropout(config.residual_dropout)

    def forward(self, x_BTW: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.before:
            y: Tensor = x_BTW + self.dropout(sublayer(self.norm(x_BTW)))
        else:
            y = self.norm(x_BTW + self.dropout(sublayer(x_BTW)))
        return y


class EncoderLayer(nn.Module):
    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(config.width, config.heads, config.attention_dropout)
        self.feed_forward = FeedForward(config)
        self.attention_residual = Residual(config)
        self.feed_forward_residual = Residual(config)

    def forward(self, x_BSW: Tensor, visible: Tensor, maps: list[Tensor] | None = None) -> Tensor:
        def attend_to_itself(y: Tensor) -> Tensor:
            attended: Tensor = self.attention(*self.attention.queries_keys_values(y), visible, maps)
            return attended

        x_BSW = self.attention_residual(x_BSW, attend_to_itself)
        x_BSW = self.feed_forward_residual(x_BSW, self.feed_forward)
        return x_BSW


Past: TypeAlias = KeysValues | State
"""Memory of a decoder layer: keys and values of earlier positions, or the state of its SSRU."""


class DecoderLayer(nn.Module):
    """Self-attention or SSRU, attention to the source, feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        width, heads, dropout = config.width, config.heads, config.attention_dropout
        self.recurrent = config.recurrent
        if self.recurrent:
            self.recurrence = Recurrence(width)
            self.recurrence_residual = Residual(config)
        else:
            self.attention = MultiHeadAttention(width, heads, dropout)
        self.cross = MultiHeadAttention(width, heads, dropout)
        self.feed_forward = FeedForward(config)
        if not self.recurrent:
            self.attention_residual = Residual(config)
        self.cross_residual = Residual(config)
        self.feed_forward_residual = Residual(config)

    def forward(
        self,
        x_BTW: Tensor,
        past: Past | None,
        source: KeysValues,
        visible: Visible,
        source_visible: Tensor,
        maps: tuple[list[Tensor] | None, list[Tensor]] | None = None,
    ) -> tuple[Tensor, Past]:
        """Run the layer over ``x`` at positions that follow those of ``past``.

        Returns the new ``x``, and what the layer keeps of all positions so far. ``visible`` is for
        self-attention; SSRU sees earlier positions only.
        """
        self_maps, cross_maps = maps if maps is not None else (None, None)
        present: list[Past] = []

        def attend_to_itself(y: Tensor) -> Tensor:
            query, own = self.attention.queries_keys_values(y)
            keys_values = own if past is None else cast(KeysValues, past).append(own)
            present.append(keys_values)
            attended: Tensor = self.attention(query, keys_values, visible, self_maps)
            return attended

        def recur(y: Tensor) -> Tensor:
            output, state = self.recurrence(y, past)
            present.append(state)
            recurred: Tensor = output
            return recurred

        def attend_to_source(y: Tensor) -> Tensor:
            attended: Tensor = self.cross(self.cross.queries(y), source, source_visible, cross_maps)
            return attended

        if self.recurrent:
            x_BTW = self.recurrence_residual(x_BTW, recur)
        else:
            x_BTW = self.attention_residual(x_BTW, attend_to_itself)
        x_BTW = self.cross_residual(x_BTW, attend_to_source)
        x_BTW = self.feed_forward_residual(x_BTW, self.feed_forward)
        return x_BTW, present[0]
