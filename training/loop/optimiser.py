"""Builds a recipe's optimiser: Adam, or Muon for hidden matrices and Adam for the other ones."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import nn

from models.transformer.transformer import Transformer
from training.loop.muon import Muon
from training.recipe import Optimisation


class Optimiser:
    """One or two PyTorch optimisers over disjoint parameters, behind one interface."""

    def __init__(self, parts: list[torch.optim.Optimizer]) -> None:
        self._parts = parts

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [group for part in self._parts for group in part.param_groups]

    def zero_grad(self) -> None:
        for part in self._parts:
            part.zero_grad(set_to_none=True)

    def step(self) -> None:
        for part in self._parts:
            part.step()

    def state_dict(self) -> list[dict[str, Any]]:
        return [part.state_dict() for part in self._parts]

    def load_state_dict(self, states: list[dict[str, Any]]) -> None:
        for part, state in zip(self._parts, states, strict=True):
            part.load_state_dict(state)


def optimiser_for(
    network: Transformer, optimisation: Optimisation, dtype: torch.dtype | None = None
) -> Optimiser:
    """The optimiser with decoupled weight decay of matrices only (Loshchilov and Hutter, 2019).

    Biases and norms scale or shift activations; decaying them prevents no overfitting. ``muon``
    optimises the matrices of encoder and decoder layers, with products in ``dtype`` (default:
    fp32), and Adam optimises embeddings, biases and norms.
    """
    by_muon = _hidden_matrices(network) if optimisation.optimiser == "muon" else []
    taken = set(map(id, by_muon))
    others = [parameter for parameter in network.parameters() if id(parameter) not in taken]
    adam = torch.optim.AdamW(
        [
            {
                "params": [each for each in others if each.dim() > 1],
                "weight_decay": optimisation.weight_decay,
            },
            {"params": [each for each in others if each.dim() <= 1], "weight_decay": 0.0},
        ],
        lr=0.0,
        betas=optimisation.betas,
        eps=optimisation.epsilon,
        fused=True,
    )
    if not by_muon:
        return Optimiser([adam])
    return Optimiser([adam, Muon(by_muon, optimisation.weight_decay, dtype or torch.float32)])


def _hidden_matrices(network: Transformer) -> list[nn.Parameter]:
    return [
        cast(nn.Parameter, module.weight)
        for stack in (network.encoder, network.decoder)
        for module in stack.modules()
        if isinstance(module, nn.Linear)
    ]
