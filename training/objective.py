"""The loss: Kullback–Leibler divergence from label-smoothed targets (section 5.4), and R-Drop.

Every loss is spelt out once as a formula, which a compiler fuses, and once more by hand where
nothing compiles it.
"""

from __future__ import annotations

import math
from typing import Any

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
    """Sum over N of KL(smoothed target ‖ softmax(logits)), in nats; padding costs nothing.

    Equal to ``functional.kl_div`` against ``smoothed_targets``, which it never builds, and with
    the gradient found on the way: softmax(logits) − smoothed target.
    """
    loss: Tensor = _SmoothedLoss.apply(  # type: ignore[no-untyped-call]
        logits_NV, targets_N, smoothing, pad_id
    )
    return loss


def smoothed_loss_by_formula(
    logits_NV: Tensor, targets_N: Tensor, smoothing: float, pad_id: int
) -> Tensor:
    """The same for a compiler, which makes two passes over the logits of it."""
    x_NV = logits_NV.float()
    right_N = x_NV.gather(1, targets_N[:, None])[:, 0]
    share = smoothing / (logits_NV.size(1) - 2)
    loss_N = x_NV.logsumexp(dim=1) - (1.0 - smoothing) * right_N - _entropy(smoothing, share)
    if smoothing:
        loss_N = loss_N - share * (x_NV.sum(dim=1) - x_NV[:, pad_id] - right_N)
    return (loss_N * (targets_N != pad_id)).sum()


def disagreement(one_NV: Tensor, other_NV: Tensor, targets_N: Tensor, pad_id: int) -> Tensor:
    """Sum over N of ½·[KL(P₁ ‖ P₂) + KL(P₂ ‖ P₁)], in nats, of two passes' logits.

    Equation 1 of Liang et al. (2021), "R-Drop: Regularized Dropout for Neural Networks". The two
    divergences together are Σ (P₁ − P₂)(log P₁ − log P₂).
    """
    one_NV, other_NV = one_NV.float().log_softmax(dim=1), other_NV.float().log_softmax(dim=1)
    both_N = ((one_NV.exp() - other_NV.exp()) * (one_NV - other_NV)).sum(dim=1)
    return 0.5 * (both_N * (targets_N != pad_id)).sum()


def _entropy(smoothing: float, share: float) -> float:
    """Σ q·log q of a smoothed target q, negated."""
    entropy = -(1.0 - smoothing) * math.log(1.0 - smoothing)
    return entropy - smoothing * math.log(share) if smoothing else entropy


class _SmoothedLoss(torch.autograd.Function):
    # The vocabulary makes this the largest tensor of a training step: on a CPU, what autograd
    # would record costs a quarter of the step, and working in place most of that.

    @staticmethod
    def forward(
        context: Any, logits_NV: Tensor, targets_N: Tensor, smoothing: float, pad_id: int
    ) -> Tensor:
        share = smoothing / (logits_NV.size(1) - 2)
        right_N1 = targets_N[:, None]
        real_N1 = right_N1 != pad_id
        x_NV = logits_NV.to(torch.float32, copy=True)
        x_NV -= x_NV.amax(dim=1, keepdim=True)
        right_N = x_NV.gather(1, right_N1)[:, 0]
        others_N = x_NV.sum(dim=1) - x_NV[:, pad_id] - right_N
        x_NV.exp_()
        sum_N1 = x_NV.sum(dim=1, keepdim=True)
        # log p = x − log Σ exp x, and the targets add up to one.
        cross_entropy_N = sum_N1.log()[:, 0] - (1.0 - smoothing) * right_N - share * others_N
        loss_N = cross_entropy_N - _entropy(smoothing, share)

        # Divided by infinity and given no share, padding gets no gradient.
        share_N1 = share * real_N1
        x_NV /= sum_N1.masked_fill(~real_N1, math.inf)
        x_NV -= share_N1
        x_NV[:, pad_id] += share_N1[:, 0]
        correction_N1 = (share - (1.0 - smoothing)) * real_N1
        x_NV.scatter_add_(1, right_N1, correction_N1)
        context.save_for_backward(x_NV.to(logits_NV.dtype))
        return (loss_N * real_N1[:, 0]).sum()

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        (gradient_NV,) = context.saved_tensors
        return gradient_NV * gradients[0], None, None, None


def negative_log_likelihood(logits_NV: Tensor, targets_N: Tensor) -> Tensor:
    """Sum over N of −log p(target), in nats: what perplexity is the exponent of."""
    return functional.cross_entropy(logits_NV.float(), targets_N, reduction="sum")
