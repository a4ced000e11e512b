from __future__ import annotations

import pytest
import torch
from torch import Tensor

from models.transformer.recurrence import Recurrence, State, scan


def sequential(gate_BTW: Tensor, added_BTW: Tensor) -> Tensor:
    state, states = torch.zeros_like(added_BTW[:, 0]), []
    for position in range(gate_BTW.size(1)):
        state = gate_BTW[:, position] * state + added_BTW[:, position]
        states.append(state)
    return torch.stack(states, dim=1)


@pytest.mark.parametrize("length", [1, 2, 3, 8, 37, 300])
@pytest.mark.parametrize("shift", [-30.0, 0.0, 30.0])
def test_scan_and_its_gradients_equal_those_of_the_sequential_form(
    length: int, shift: float
) -> None:
    torch.manual_seed(length)
    logits = (torch.randn(2, length, 5, dtype=torch.float64) + shift).requires_grad_()
    added = torch.randn(2, length, 5, dtype=torch.float64, requires_grad=True)
    found, expected = (each(logits.sigmoid(), added) for each in (scan, sequential))
    torch.testing.assert_close(found, expected)
    weights = torch.randn_like(found)
    gradients = (
        torch.autograd.grad((states * weights).sum(), (logits, added), allow_unused=True)
        for states in (found, expected)
    )
    for own, other in zip(*gradients, strict=True):
        # A single position has no use for its gate.
        torch.testing.assert_close(torch.zeros_like(other) if own is None else own, other)


def test_gates_of_zero_and_one_give_finite_gradients() -> None:
    logits = torch.tensor([-1e4, 1e4, -1e4, 1e4]).repeat(2)[None, :, None].requires_grad_()
    scan(logits.sigmoid(), torch.ones(1, 8, 1)).sum().backward()
    assert logits.grad is not None and logits.grad.isfinite().all()


def test_positions_in_two_parts_give_the_same_as_at_once() -> None:
    torch.manual_seed(1)
    layer, x = Recurrence(8), torch.randn(3, 7, 8)
    at_once, last = layer(x, None)
    first, state = layer(x[:, :4], None)
    second, following = layer(x[:, 4:], state)
    torch.testing.assert_close(torch.cat((first, second), dim=1), at_once)
    torch.testing.assert_close(following.vector, last.vector)
    rows = torch.tensor([2, 0])
    assert torch.equal(state.select(rows).vector, state.vector[[2, 0]])
    assert isinstance(state, State)
