"""A ``models.reference.beam.Decoder`` on a PyTorch network, without a cache."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from models.bundle.tokenizer import SPECIAL_IDS
from models.transformer.transformer import Transformer


class PrefixDecoder:
    """Runs the network over every prefix in full, without a cache, as a reference."""

    def __init__(self, network: Transformer) -> None:
        self._network = network.eval()

    @torch.inference_mode()
    def start(self, source_ids: Sequence[int]) -> None:
        self._source_1S = torch.tensor([list(source_ids)])
        self._memory_1SW = self._network.encode(self._source_1S)
        self._prefixes: list[tuple[int, ...]] = [()]

    @torch.inference_mode()
    def extend(
        self, parents: list[int], tokens: list[int], count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        self._prefixes = [
            (*self._prefixes[parent], token) for parent, token in zip(parents, tokens, strict=True)
        ]
        rows = len(tokens)
        hidden_NTW = self._network.decode(
            self._memory_1SW.expand(rows, -1, -1),
            self._source_1S.expand(rows, -1),
            torch.tensor(self._prefixes),
        )
        log_probs_NV = self._network.project(hidden_NTW[:, -1]).log_softmax(-1)
        best = log_probs_NV.topk(min(count, log_probs_NV.size(1)))
        return best.indices.numpy(), best.values.numpy()


class Attending:
    """Adapter for the reference search: next-token logits and last-layer cross-attention."""

    def __init__(self, network: Transformer, source_ids: tuple[int, ...]) -> None:
        self._network = network
        self._source = torch.tensor([source_ids])

    @torch.inference_mode()
    def __call__(self, prefix: tuple[int, ...]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        target = torch.tensor([[SPECIAL_IDS.bos, *prefix]])
        logits, maps = self._network.attention_maps(self._source, target)
        return logits[0, -1].numpy(), maps.cross[-1][0, :, -1].mean(0).numpy()
