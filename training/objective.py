"""The loss: Kullback–Leibler divergence from label-smoothed targets (section 5.4)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as functional
from torch import Tensor


def smoothed_targets(targets_N: Tensor, vocabulary: int, smoothing: float, pad_id: int) -> Tensor:
    """The distribution the network is asked for, ``[N, V]``.

    The right token gets 1 − ε; the others share ε evenly, except padding, which gets nothing.
    """
    targets_NV = torch.full((len(targets_N), vocabulary), smoothing / (vocabulary - 2))
    targets_NV.scatter_(1, targets_N[:, None], 1.0 - smoothing)
    targets_NV[:, pad_id] = 0.0
    return targets_NV


def smoothed_loss(logits_NV: Tensor, targets_N: Tensor, smoothing: float, pad_id: int) -> Tensor:
    """Sum over N of KL(smoothed target ‖ softmax(logits)), in nats; N must hold no padding.

    Equal to ``functional.kl_div`` against ``smoothed_targets`` without ever building them: with
    log p = logit − logsumexp, the shared ε reaches all logits through one sum.
    """
    logits_NV = logits_NV.float()
    vocabulary = logits_NV.size(1)
    normaliser_N = logits_NV.logsumexp(dim=1)
    right_N = logits_NV.gather(1, targets_N[:, None])[:, 0]
    cross_entropy_N = -(1.0 - smoothing) * (right_N - normaliser_N)
    entropy = (1.0 - smoothing) * math.log(1.0 - smoothing)
    if smoothing:
        share = smoothing / (vocabulary - 2)
        others_N = logits_NV.sum(dim=1) - logits_NV[:, pad_id] - right_N
        cross_entropy_N = cross_entropy_N - share * (others_N - (vocabulary - 2) * normaliser_N)
        entropy += smoothing * math.log(share)
    return (cross_entropy_N + entropy).sum()


def negative_log_likelihood(logits_NV: Tensor, targets_N: Tensor) -> Tensor:
    """Sum over N of −log p(target), in nats: what perplexity is the exponent of."""
    return functional.cross_entropy(logits_NV.float(), targets_N, reduction="sum")
