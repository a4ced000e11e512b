"""What stands around attention: embeddings, positions, feed-forward, residual and norm."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from models.transformer.attention import KeysValues, MultiHeadAttention
from models.transformer.config import TransformerConfig


def sinusoids(length: int, width: int) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/W)), PE(pos, 2i+1) = cos of the same (section 3.5).

    Returns ``[length, W]``.
    """
    position_P1 = torch.arange(length, dtype=torch.float32)[:, None]
    rate_I = torch.exp(torch.arange(0, width, 2, dtype=torch.float32) * -(math.log(10_000) / width))
    table_PW = torch.empty(length, width)
    table_PW[:, 0::2] = torch.sin(position_P1 * rate_I)
    table_PW[:, 1::2] = torch.cos(position_P1 * rate_I)
    return table_PW


class Embedding(nn.Module):
    """Token embeddings times √W, plus positions, then dropout (sections 3.4, 3.5, 5.4)."""

    positions: Tensor

    def __init__(self, tokens: nn.Embedding, config: TransformerConfig) -> None:
        super().__init__()
        self.tokens = tokens
        self.scale = math.sqrt(config.width)
        self.dropout = nn.Dropout(config.embedding_dropout)
        table_PW = sinusoids(config.max_length, config.width)
        if config.positions == "learned":
            self.positions = nn.Parameter(torch.randn_like(table_PW) * config.width**-0.5)
        else:
            self.register_buffer("positions", table_PW, persistent=False)

    def forward(self, ids_BT: Tensor, start: int = 0) -> Tensor:
        """Embed tokens that stand at positions ``start``, ``start + 1``, …: ``[B, T, W]``.

        Raises ``ValueError`` when a position lies beyond ``max_length``.
        """
        end = start + ids_BT.size(1)
        if end > len(self.positions):
            raise ValueError(f"position {end} is beyond max_length {len(self.positions)}")
        embedded: Tensor = self.tokens(ids_BT) * self.scale + self.positions[start:end]
        dropped: Tensor = self.dropout(embedded)
        return dropped


class FeedForward(nn.Module):
    """max(0, xW₁ + b₁)W₂ + b₂, at every position alike (equation 2)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.inner = nn.Linear(config.width, config.feed_forward)
        self.outer = nn.Linear(config.feed_forward, config.width)
        self.dropout = nn.Dropout(config.feed_forward_dropout)

    def forward(self, x_BTW: Tensor) -> Tensor:
        y: Tensor = self.outer(self.dropout(torch.relu(self.inner(x_BTW))))
        return y


class Residual(nn.Module):
    """Around every sub-layer: LayerNorm(x + Dropout(f(x))), or x + Dropout(f(LayerNorm(x)))."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.before = config.norm == "before"
        self.norm = nn.LayerNorm(config.width)
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
            attended: Tensor = self.attention(y, self.attention.keys_values(y), visible, maps)
            return attended

        x_BSW = self.attention_residual(x_BSW, attend_to_itself)
        x_BSW = self.feed_forward_residual(x_BSW, self.feed_forward)
        return x_BSW


class DecoderLayer(nn.Module):
    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(config.width, config.heads, config.attention_dropout)
        self.cross = MultiHeadAttention(config.width, config.heads, config.attention_dropout)
        self.feed_forward = FeedForward(config)
        self.attention_residual = Residual(config)
        self.cross_residual = Residual(config)
        self.feed_forward_residual = Residual(config)

    def forward(
        self,
        x_BTW: Tensor,
        past: KeysValues | None,
        source: KeysValues,
        visible: Tensor | None,
        source_visible: Tensor,
        maps: tuple[list[Tensor], list[Tensor]] | None = None,
    ) -> tuple[Tensor, KeysValues]:
        """One layer over ``x``, whose past is already in ``past``.

        Returns the new ``x`` and the keys and values of past and present together.
        """
        self_maps, cross_maps = maps if maps is not None else (None, None)
        present: list[KeysValues] = []

        def attend_to_itself(y: Tensor) -> Tensor:
            own = self.attention.keys_values(y)
            present.append(own if past is None else past.append(own))
            attended: Tensor = self.attention(y, present[0], visible, self_maps)
            return attended

        def attend_to_source(y: Tensor) -> Tensor:
            attended: Tensor = self.cross(y, source, source_visible, cross_maps)
            return attended

        x_BTW = self.attention_residual(x_BTW, attend_to_itself)
        x_BTW = self.cross_residual(x_BTW, attend_to_source)
        x_BTW = self.feed_forward_residual(x_BTW, self.feed_forward)
        return x_BTW, present[0]
