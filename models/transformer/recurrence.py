"""Simpler Simple Recurrent Unit (SSRU; Kim et al. 2019), the recurrence of a decoder layer.

    f = sigmoid(W_f u + b_f)        c_t = f * c_(t-1) + (1 - f) * (W u)        output: ReLU(c_t)

The gate f depends on the input alone, so training computes all positions at once. In decoding, the
state c is one vector per row. Shape legend: ``models.transformer.attention``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class State:
    """State of the recurrence after the last position: ``[B, W]``."""

    vector: Tensor

    def select(self, rows: Tensor) -> State:
        return State(self.vector.index_select(0, rows))


def scan(gate_BTW: Tensor, added_BTW: Tensor) -> Tensor:
    """c_t = gate_t * c_(t-1) + added_t for every t, with c_(-1) = 0: ``[B, T, W]``.

    Doubles the number of positions that each result covers until it covers all (Hillis and Steele
    1986): log2(T) passes. Gates are at most 1, so their products cannot overflow, and nothing is
    divided by a product that underflows.
    """
    step, length = 1, gate_BTW.size(1)
    while step < length:
        before, after = slice(None, -step), slice(step, None)
        carried = added_BTW[:, after] + gate_BTW[:, after] * added_BTW[:, before]
        product = gate_BTW[:, after] * gate_BTW[:, before]
        added_BTW = torch.cat((added_BTW[:, :step], carried), dim=1)
        gate_BTW = torch.cat((gate_BTW[:, :step], product), dim=1)
        step *= 2
    return added_BTW


class Recurrence(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.input = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, width)

    def forward(self, x_BTW: Tensor, past: State | None) -> tuple[Tensor, State]:
        """The output at each position, ``[B, T, W]``, and the state after the last one."""
        # Sums over many positions need more precision than autocast's products.
        gate_BTW = torch.sigmoid(self.gate(x_BTW).float())
        added_BTW = (1 - gate_BTW) * self.input(x_BTW).float()
        if past is not None:
            first = added_BTW[:, :1] + gate_BTW[:, :1] * past.vector[:, None]
            added_BTW = torch.cat((first, added_BTW[:, 1:]), dim=1)
        states_BTW = scan(gate_BTW, added_BTW)
        return torch.relu(states_BTW), State(states_BTW[:, -1])
