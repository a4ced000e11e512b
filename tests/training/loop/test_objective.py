from __future__ import annotations

from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as functional
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from training.loop.objective import (
    disagreement,
    negative_log_likelihood,
    projected_loss,
    smoothed_loss,
    smoothed_targets,
)

PAD = 0


@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 9),
    vocabulary=st.integers(3, 40),
    smoothing=st.just(0.0) | st.floats(1e-6, 0.9),
    scale=st.floats(0.0, 8.0),
)
def test_smoothed_loss_and_gradient_equal_kl_div(
    seed: int, rows: int, vocabulary: int, smoothing: float, scale: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, vocabulary, generator=generator) * scale
    targets = torch.randint(1, vocabulary, (rows,), generator=generator)
    actual, reference = (logits.clone().requires_grad_() for _ in range(2))
    loss = smoothed_loss(actual, targets, smoothing, PAD)
    wanted = smoothed_targets(targets, vocabulary, smoothing, PAD)
    expected = functional.kl_div(reference.log_softmax(-1), wanted, reduction="sum")
    torch.testing.assert_close(loss, expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(
        torch.autograd.grad(loss, actual),
        torch.autograd.grad(expected, reference),
        atol=1e-5,
        rtol=1e-4,
    )


@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 9),
    vocabulary=st.integers(3, 40),
    smoothing=st.just(0.0) | st.floats(1e-6, 0.9),
    bias=st.booleans(),
)
def test_projected_loss_and_gradients_equal_the_formula_on_all_logits(
    seed: int, rows: int, vocabulary: int, smoothing: float, bias: bool
) -> None:
    torch.manual_seed(seed)
    projection = nn.Linear(4, vocabulary, bias=bias)
    hidden = torch.randn(rows, 4, requires_grad=True)
    targets = torch.randint(0, vocabulary, (rows,))
    wanted = [hidden, *projection.parameters()]
    with patch("training.loop.objective._CHUNK", 3):
        found = projected_loss(hidden, projection, targets, smoothing, PAD)
    expected = smoothed_loss(projection(hidden), targets, smoothing, PAD)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(
        torch.autograd.grad(3.0 * found, wanted),
        torch.autograd.grad(3.0 * expected, wanted),
        atol=1e-4,
        rtol=1e-4,
    )


def test_projected_loss_under_bf16_autocast_is_close_to_fp32() -> None:
    torch.manual_seed(1)
    projection = nn.Linear(16, 30, bias=False)
    hidden = torch.randn(8, 16, requires_grad=True)
    targets = torch.randint(1, 30, (8,))
    expected = projected_loss(hidden, projection, targets, 0.1, PAD)
    with torch.autocast("cpu", torch.bfloat16):
        found = projected_loss(hidden, projection, targets, 0.1, PAD)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=0.01, atol=0.01)
    for actual, reference in zip(
        torch.autograd.grad(found, [hidden, projection.weight]),
        torch.autograd.grad(expected, [hidden, projection.weight]),
        strict=True,
    ):
        torch.testing.assert_close(actual, reference, rtol=0.05, atol=0.02)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_padding_adds_no_loss_and_gets_no_gradient(smoothing: float) -> None:
    logits = torch.randn(5, 8)
    targets = torch.tensor([3, 7, 1, PAD, PAD])
    some, all_ = logits[:3].clone().requires_grad_(), logits.clone().requires_grad_()
    expected = smoothed_loss(some, targets[:3], smoothing, PAD)
    found = smoothed_loss(all_, targets, smoothing, PAD)
    torch.testing.assert_close(found, expected)
    expected.backward()  # type: ignore[no-untyped-call]
    found.backward()  # type: ignore[no-untyped-call]
    assert some.grad is not None and all_.grad is not None
    torch.testing.assert_close(all_.grad[:3], some.grad)
    assert not all_.grad[3:].any()


def test_disagreement_is_both_divergences_halved_and_has_their_gradient() -> None:
    one, other = (torch.randn(5, 7, dtype=torch.float64, requires_grad=True) for _ in range(2))
    targets = torch.tensor([3, 1, PAD, 2, PAD])
    logs = [logits[targets != PAD].log_softmax(-1) for logits in (one, other)]
    expected = 0.5 * sum(
        functional.kl_div(a, b, log_target=True, reduction="sum") for a, b in (logs, logs[::-1])
    )
    found = disagreement(one, other, targets, PAD)
    torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=1e-5)
    for actual, reference in zip(
        torch.autograd.grad(found, [one, other]),
        torch.autograd.grad(expected, [one, other]),
        strict=True,
    ):
        torch.testing.assert_close(actual, reference, atol=1e-5, rtol=1e-4)


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


def test_the_loss_of_bf16_logits_is_computed_in_fp32() -> None:
    logits, targets = torch.randn(4, 9).bfloat16(), torch.tensor([1, 2, 3, 4])
    loss = smoothed_loss(logits, targets, 0.1, PAD)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, smoothed_loss(logits.float(), targets, 0.1, PAD))
    plain = smoothed_loss(logits, targets, 0.0, PAD)
    torch.testing.assert_close(plain, negative_log_likelihood(logits, targets))
