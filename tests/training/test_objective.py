from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as functional
from hypothesis import given
from hypothesis import strategies as st

from training.objective import negative_log_likelihood, smoothed_loss, smoothed_targets

PAD = 0


@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 9),
    vocabulary=st.integers(3, 40),
    smoothing=st.just(0.0) | st.floats(1e-6, 0.9),
    scale=st.floats(0.0, 8.0),
)
def test_the_loss_and_its_gradient_are_those_of_kl_div(
    seed: int, rows: int, vocabulary: int, smoothing: float, scale: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, vocabulary, generator=generator) * scale
    targets = torch.randint(1, vocabulary, (rows,), generator=generator)
    gradients = []
    losses = []
    for fast in (True, False):
        ours = logits.clone().requires_grad_()
        if fast:
            loss = smoothed_loss(ours, targets, smoothing, PAD)
        else:
            wanted = smoothed_targets(targets, vocabulary, smoothing, PAD)
            loss = functional.kl_div(ours.log_softmax(-1), wanted, reduction="sum")
        loss.backward()  # type: ignore[no-untyped-call]
        losses.append(loss.detach())
        gradients.append(ours.grad)
    torch.testing.assert_close(*losses, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(*gradients, atol=1e-5, rtol=1e-4)


@given(vocabulary=st.integers(3, 50), smoothing=st.floats(0.0, 1.0))
def test_smoothed_targets_are_distributions_without_padding(
    vocabulary: int, smoothing: float
) -> None:
    targets = torch.arange(1, vocabulary)
    smoothed = smoothed_targets(targets, vocabulary, smoothing, PAD)
    torch.testing.assert_close(smoothed.sum(1), torch.ones(vocabulary - 1))
    assert not smoothed[:, PAD].any()
    right = smoothed.gather(1, targets[:, None])
    torch.testing.assert_close(right, torch.full_like(right, 1.0 - smoothing))


def test_the_loss_of_a_perfect_prediction_is_nothing() -> None:
    targets = torch.tensor([1, 4, 2])
    logits = smoothed_targets(targets, 6, 0.1, PAD).clamp(min=1e-30).log()
    assert float(smoothed_loss(logits, targets, 0.1, PAD)) == pytest.approx(0.0, abs=1e-4)


def test_without_smoothing_the_loss_is_the_likelihoods() -> None:
    logits, targets = torch.randn(5, 7), torch.tensor([1, 2, 3, 4, 5])
    torch.testing.assert_close(
        smoothed_loss(logits, targets, 0.0, PAD), negative_log_likelihood(logits, targets)
    )


def test_knowing_nothing_costs_the_logarithm_of_the_vocabulary() -> None:
    likelihood = negative_log_likelihood(torch.zeros(3, 20), torch.tensor([1, 2, 3]))
    assert float(likelihood) == pytest.approx(3 * math.log(20))


def test_the_loss_of_bf16_logits_is_computed_in_fp32() -> None:
    logits, targets = torch.randn(4, 9).bfloat16(), torch.tensor([1, 2, 3, 4])
    loss = smoothed_loss(logits, targets, 0.1, PAD)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, smoothed_loss(logits.float(), targets, 0.1, PAD))
