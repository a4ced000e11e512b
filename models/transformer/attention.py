"""Multi-head scaled dot-product attention (section 3.2) and its masks.

Shape legend, used throughout ``models.transformer``:
    B  sentences     S  source positions    T  target positions    V  vocabulary
    W  width         H  heads               D  width of a head     Q, K  queries, keys

A mask is boolean: ``True`` where a query may attend to a key. The pure causal mask has a constant
of its own, ``CAUSAL``, because fused kernels then need no tensor and skip half of the work.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

Visible: TypeAlias = Tensor | Literal["causal"] | None
"""A mask, ``CAUSAL``, or ``None`` if every key is visible."""

CAUSAL: Final = "causal"


def padding_mask(ids_BS: Tensor, pad_id: int) -> Tensor:
    """Mask of the padding, for every head and query: ``[B, 1, 1, S]``, broadcast over H and Q."""
    return (ids_BS != pad_id)[:, None, None, :]


def subsequent_mask(length: int, device: torch.device | None = None) -> Tensor:
    """Causal mask ``[T, T]``, lower triangular: position t sees 0 … t."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


def attend(
    query_BHQD: Tensor, key_BHKD: Tensor, value_BHKD: Tensor, visible: Visible, dropout: float
) -> Tensor:
    """softmax(QKᵀ/√D)·V (equation 1), fused. Returns ``[B, H, Q, D]``."""
    mask, causal = (None, True) if isinstance(visible, str) else (visible, False)
    return functional.scaled_dot_product_attention(
        query_BHQD,
        key_BHKD,
        value_BHKD,
        attn_mask=mask,
        dropout_p=dropout,
        is_causal=causal,
    )


def attend_explicitly(
    query_BHQD: Tensor, key_BHKD: Tensor, value_BHKD: Tensor, visible: Visible, dropout: float
) -> tuple[Tensor, Tensor]:
    """Attention as of ``attend``, unfused, and its map: ``[B, H, Q, D]`` and ``[B, H, Q, K]``."""
    scores_BHQK = query_BHQD @ key_BHKD.transpose(-2, -1) / math.sqrt(query_BHQD.size(-1))
    if isinstance(visible, str):
        visible = subsequent_mask(scores_BHQK.size(-1), scores_BHQK.device)
    if visible is not None:
        scores_BHQK = scores_BHQK.masked_fill(~visible, float("-inf"))
    weights_BHQK = scores_BHQK.softmax(dim=-1)
    return functional.dropout(weights_BHQK, dropout) @ value_BHKD, weights_BHQK


@dataclass(slots=True)
class KeysValues:
    """Keys and values of attention: ``key`` and ``value``, each ``[B, H, K, D]``."""

    key: Tensor
    value: Tensor

    def append(self, other: KeysValues) -> KeysValues:
        return KeysValues(
            torch.cat((self.key, other.key), dim=2), torch.cat((self.value, other.value), dim=2)
        )

    def select(self, rows: Tensor) -> KeysValues:
        return KeysValues(self.key.index_select(0, rows), self.value.index_select(0, rows))


class MultiHeadAttention(nn.Module):
    """Projects to H heads, attends in each, concatenates and projects back (section 3.2.2)."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    def queries(self, x_BQW: Tensor) -> Tensor:
        """Projected queries ``[B, H, Q, D]``."""
        return self._split(self.query(x_BQW))

    def keys_values(self, memory_BKW: Tensor) -> KeysValues:
        key, value = self._projected(memory_BKW, self.key, self.value)
        return KeysValues(key, value)

    def queries_keys_values(self, x_BQW: Tensor) -> tuple[Tensor, KeysValues]:
        """Queries, keys and values of self-attention, from one fused projection."""
        query, key, value = self._projected(x_BQW, self.query, self.key, self.value)
        return query, KeysValues(key, value)

    def forward(
        self,
        query_BHQD: Tensor,
        memory: KeysValues,
        visible: Visible,
        maps: list[Tensor] | None = None,
    ) -> Tensor:
        """Attend to ``memory``. If ``maps`` is given, attends unfused and appends the map to it."""
        dropout = self.dropout if self.training else 0.0
        if maps is None:
            heads_BHQD = attend(query_BHQD, memory.key, memory.value, visible, dropout)
        else:
            heads_BHQD, weights_BHQK = attend_explicitly(
                query_BHQD, memory.key, memory.value, visible, dropout
            )
            maps.append(weights_BHQK)
        joined_BQW = heads_BHQD.transpose(1, 2).flatten(2)
        projected: Tensor = self.output(joined_BQW)
        return projected

    def _projected(self, x_BKW: Tensor, *layers: nn.Linear) -> list[Tensor]:
        """``x`` projected by each layer, in one wide matrix product, which is faster."""
        weight = torch.cat([layer.weight for layer in layers])
        bias = torch.cat([layer.bias for layer in layers])
        joined = functional.linear(x_BKW, weight, bias)
        return [self._split(part) for part in joined.chunk(len(layers), dim=-1)]

    def _split(self, x_BKW: Tensor) -> Tensor:
        sentences, length, width = x_BKW.shape
        return x_BKW.view(sentences, length, self.heads, width // self.heads).transpose(1, 2)
