"""Label-smoothed loss as Kullback–Leibler divergence (section 5.4), and the R-Drop divergence.

``smoothed_loss`` is the formula, which a compiler fuses. ``projected_loss`` computes the same with
hand-written gradients, for training without a compiler.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor, nn


def smoothed_targets(targets_N: Tensor, vocabulary: int, smoothing: float, pad_id: int) -> Tensor:
    """The smoothed target distribution, ``[N, V]``.

    The right token has 1 − ε; the other tokens share ε evenly, except padding, which has none.
    """
    targets_NV = torch.full((len(targets_N), vocabulary), smoothing / (vocabulary - 2))
    targets_NV.scatter_(1, targets_N[:, None], 1.0 - smoothing)
    targets_NV[:, pad_id] = 0.0
    return targets_NV


def smoothed_loss(logits_NV: Tensor, targets_N: Tensor, smoothing: float, pad_id: int) -> Tensor:
    """Sum over N of KL(smoothed target ‖ softmax(logits)), in nats; padding adds nothing.

    Its lower bound is zero, where the network predicts exactly the smoothed targets.
    """
    x_NV = logits_NV.float()
    right_N = x_NV.gather(1, targets_N[:, None])[:, 0]
    share = smoothing / (logits_NV.size(1) - 2)
    loss_N = x_NV.logsumexp(dim=1) - (1.0 - smoothing) * right_N - _entropy(smoothing, share)
    if smoothing:
        loss_N = loss_N - share * (x_NV.sum(dim=1) - x_NV[:, pad_id] - right_N)
    return (loss_N * (targets_N != pad_id)).sum()


def projected_loss(
    hidden_NW: Tensor,
    projection: nn.Linear,
    targets_N: Tensor,
    smoothing: float,
    pad_id: int,
) -> Tensor:
    """``smoothed_loss`` of ``projection(hidden_NW)``, without materialising all logits.

    Computes the gradients of both arguments in the forward pass, chunk by chunk, in the active
    autocast precision. On a CPU this saves a quarter of a training step.
    """
    loss: Tensor = _ProjectedLoss.apply(  # type: ignore[no-untyped-call]
        hidden_NW, projection.weight, projection.bias, targets_N, smoothing, pad_id
    )
    return loss


def disagreement(one_NV: Tensor, other_NV: Tensor, targets_N: Tensor, pad_id: int) -> Tensor:
    """Sum over N of ½·[KL(P₁ ‖ P₂) + KL(P₂ ‖ P₁)], in nats, of two passes' logits.

    Equation 1 of Liang et al. (2021), "R-Drop: Regularized Dropout for Neural Networks". The two
    divergences together are Σ (P₁ − P₂)(log P₁ − log P₂).
    """
    one_NV, other_NV = one_NV.float().log_softmax(dim=1), other_NV.float().log_softmax(dim=1)
    both_N = ((one_NV.exp() - other_NV.exp()) * (one_NV - other_NV)).sum(dim=1)
    return 0.5 * (both_N * (targets_N != pad_id)).sum()


def _entropy(smoothing: float, share: float) -> float:
    """−Σ q·log q of a smoothed target q."""
    entropy = -(1.0 - smoothing) * math.log(1.0 - smoothing)
    return entropy - smoothing * math.log(share) if smoothing else entropy


class _ProjectedLoss(torch.autograd.Function):
    # The logits are the largest tensor of a training step. On a CPU, chunks of them stay in the
    # cache; on a GPU, they bound the memory. Their gradient is computed in place and used at once.

    @staticmethod
    def forward(
        context: Any,
        hidden_NW: Tensor,
        weight_VW: Tensor,
        bias_V: Tensor | None,
        targets_N: Tensor,
        smoothing: float,
        pad_id: int,
    ) -> Tensor:
        device = hidden_NW.device.type
        dtype = (
            torch.get_autocast_dtype(device)
            if torch.is_autocast_enabled(device)
            else hidden_NW.dtype
        )
        matrix_VW = weight_VW.to(dtype)
        matrix_WV = matrix_VW.T.contiguous()
        chunk = rows = _GPU_CHUNK
        if device == "cpu":
            chunk, rows = _CHUNK, max(1, _IN_CACHE // len(weight_VW))
        hidden_gradient_NW = torch.empty_like(hidden_NW)
        weight_gradient_VW = torch.zeros_like(weight_VW)
        bias_gradient_V = None if bias_V is None else torch.zeros_like(bias_V)
        total = torch.zeros((), device=hidden_NW.device)
        with torch.autocast(device, enabled=False):
            for start in range(0, len(hidden_NW), chunk):
                there = slice(start, start + chunk)
                part_CW = hidden_NW[there].to(dtype)
                logits_CV = part_CW @ matrix_WV
                targets_C = targets_N[there]
                for first in range(0, len(targets_C), rows):
                    some = slice(first, first + rows)
                    logits_RV = logits_CV[some].float()
                    if bias_V is not None:
                        logits_RV += bias_V
                    loss, gradient_RV = _loss_and_gradient(
                        logits_RV, targets_C[some], smoothing, pad_id
                    )
                    total += loss
                    if bias_gradient_V is not None:
                        bias_gradient_V += gradient_RV.sum(dim=0)
                    # The logits are no longer needed.
                    logits_CV[some] = gradient_RV
                hidden_gradient_NW[there] = logits_CV @ matrix_VW
                weight_gradient_VW += logits_CV.T @ part_CW
        context.save_for_backward(hidden_gradient_NW, weight_gradient_VW, bias_gradient_V)
        return total

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (None if each is None else each * gradients[0] for each in context.saved_tensors)
        return *scaled, None, None, None


_CHUNK = 1024
"""Target positions per chunk of logits."""
_GPU_CHUNK = 8192
"""The same on a GPU, where small chunks cost launches: 400 MB in fp32 with 12,000 pieces."""
_IN_CACHE = 2**19
"""Logits whose loss and gradient a processor computes at once: 2 MB in fp32."""


def _loss_and_gradient(
    x_NV: Tensor, targets_N: Tensor, smoothing: float, pad_id: int
) -> tuple[Tensor, Tensor]:
    """The smoothed loss, and the gradient of the logits, which overwrites them."""
    share = smoothing / (x_NV.size(1) - 2)
    right_N1 = targets_N[:, None]
    real_N1 = right_N1 != pad_id
    x_NV -= x_NV.amax(dim=1, keepdim=True)
    right_N = x_NV.gather(1, right_N1)[:, 0]
    others_N = x_NV.sum(dim=1) - x_NV[:, pad_id] - right_N
    x_NV.exp_()
    sum_N1 = x_NV.sum(dim=1, keepdim=True)
    # log p = x − log Σ exp x, and the target probabilities sum to one.
    cross_entropy_N = sum_N1.log()[:, 0] - (1.0 - smoothing) * right_N - share * others_N
    loss_N = cross_entropy_N - _entropy(smoothing, share)

    # Padding gets a zero gradient: its softmax is divided by infinity, and its share is zero.
    share_N1 = share * real_N1
    x_NV /= sum_N1.masked_fill(~real_N1, math.inf)
    x_NV -= share_N1
    x_NV[:, pad_id] += share_N1[:, 0]
    correction_N1 = (share - (1.0 - smoothing)) * real_N1
    x_NV.scatter_add_(1, right_N1, correction_N1)
    return (loss_N * real_N1[:, 0]).sum(), x_NV


def negative_log_likelihood(logits_NV: Tensor, targets_N: Tensor) -> Tensor:
    """Sum over N of −log p(target), in nats; perplexity is the exponential of its mean."""
    return functional.cross_entropy(logits_NV.float(), targets_N, reduction="sum")
