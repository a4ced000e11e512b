"""Baseline ``nn.Transformer`` with its training step, as in tutorials, to compare ours with.

It has none of our optimisations: padding and causal masks are tensors, logits are computed at every
position, the loss is torch's with label smoothing, batches are moved on demand, and the loss is
read after every step.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from models.transformer.config import TransformerConfig
from models.transformer.layers import sinusoids
from training.data.batching import Batch


class PlainTransformer(nn.Module):
    """``nn.Transformer`` of a config: shared embeddings, ReLU, post-norm, one dropout rate."""

    positions: Tensor

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.scale = math.sqrt(config.width)
        self.embedding = nn.Embedding(config.target_vocabulary, config.width, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=config.width**-0.5)
        self.register_buffer("positions", sinusoids(config.max_length, config.width))
        self.dropout = nn.Dropout(config.residual_dropout)
        self.transformer = nn.Transformer(
            config.width,
            config.heads,
            config.encoder_layers,
            config.decoder_layers,
            config.feed_forward,
            config.residual_dropout,
            batch_first=True,
        )

    def forward(self, source_BS: Tensor, target_BT: Tensor) -> Tensor:
        source_padding, target_padding = source_BS == 0, target_BT == 0
        length = target_BT.size(1)
        future = torch.ones(length, length, dtype=torch.bool, device=target_BT.device).triu(1)
        hidden: Tensor = self.transformer(
            self._embedded(source_BS),
            self._embedded(target_BT),
            tgt_mask=future,
            src_key_padding_mask=source_padding,
            tgt_key_padding_mask=target_padding,
            memory_key_padding_mask=source_padding,
        )
        return functional.linear(hidden, self.embedding.weight)

    def _embedded(self, ids_BT: Tensor) -> Tensor:
        embedded = self.embedding(ids_BT) * self.scale + self.positions[: ids_BT.size(1)]
        dropped: Tensor = self.dropout(embedded)
        return dropped


class PlainLoop:
    """Adam with gradient clipping, and autocast if ``dtype`` requires it."""

    def __init__(
        self,
        config: TransformerConfig,
        device: torch.device,
        dtype: torch.dtype | None,
        rate: float,
    ) -> None:
        torch.manual_seed(1)
        self.network = PlainTransformer(config).to(device)
        self._device = device
        self._dtype = dtype
        self._optimiser = torch.optim.Adam(
            self.network.parameters(), lr=rate, betas=(0.9, 0.98), eps=1e-9
        )

    def step(self, batch: Batch) -> float:
        self.network.train()
        self._optimiser.zero_grad()
        source, given, expected = (
            ids.to(self._device) for ids in (batch.source_BS, batch.input_BT, batch.output_BT)
        )
        with torch.autocast(self._device.type, self._dtype, enabled=self._dtype is not None):
            logits = self.network(source, given)
            loss = functional.cross_entropy(
                logits.flatten(0, 1), expected.flatten(), ignore_index=0, label_smoothing=0.1
            )
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self._optimiser.step()
        return float(loss.detach())
