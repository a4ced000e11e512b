"""Batched greedy search in PyTorch, fast enough for validation."""

from __future__ import annotations

import torch
from torch import Tensor

from models.bundle.manifest import SpecialIds
from models.transformer.transformer import Transformer


@torch.inference_mode()
def greedy(
    network: Transformer, source_BS: Tensor, special: SpecialIds, *, max_length: int
) -> list[tuple[int, ...]]:
    """The greedy translation of each row of a batch, of one token at least, without ``eos``."""
    cache = network.start(source_BS)
    tokens_B = torch.full((len(source_BS),), special.bos, device=source_BS.device)
    ended_B = torch.zeros_like(tokens_B, dtype=torch.bool)
    steps: list[Tensor] = []
    while len(steps) < max_length and not bool(ended_B.all()):
        logits_BV = network.step(tokens_B, cache)
        logits_BV[:, [special.pad, special.bos]] = -torch.inf
        if not steps:
            logits_BV[:, special.eos] = -torch.inf
        tokens_B = logits_BV.argmax(-1)
        tokens_B = tokens_B.masked_fill(ended_B, special.eos)
        ended_B |= tokens_B == special.eos
        steps.append(tokens_B)
    rows = torch.stack(steps, dim=1).tolist()
    return [tuple(row[: row.index(special.eos)] if special.eos in row else row) for row in rows]
