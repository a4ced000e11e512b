"""Muon: momentum orthogonalised by Newton–Schulz iterations, for the matrices of hidden layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

_ITERATION = (3.4445, -4.7750, 2.0315)
"""Coefficients of the quintic iteration (Jordan et al., 2024, "Muon")."""
_ITERATIONS = 5


class Muon(torch.optim.Optimizer):
    """Momentum of 0.95 with Nesterov's correction, orthogonalised and scaled to Adam's step size.

    Scaled by 0.2·√max(rows, columns), an update has the usual root mean square of Adam's, so
    that both optimisers share a learning rate (Liu et al., 2025, "Muon is Scalable for LLM
    Training", equation 4). ``torch.optim.Muon`` computes the same, always in bf16. A processor
    without bf16 instructions emulates it, four times as slow as fp32.

    ``dtype`` is the data type of the products. In bf16, where the processor has it, they take a
    quarter of the time that fp32 takes.
    """

    def __init__(
        self,
        matrices: list[nn.Parameter],
        weight_decay: float,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(matrices, {"lr": 0.0, "weight_decay": weight_decay})
        self._dtype = dtype

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update; ``closure`` is not supported."""
        if closure is not None:
            raise ValueError("Muon takes no closure")
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[nn.Parameter]] = {}
            for parameter in group["params"]:
                by_shape.setdefault(parameter.shape, []).append(parameter)
            for shape, parameters in by_shape.items():
                momenta = torch.stack([*map(self._momentum, parameters)])
                directions = orthogonalised(momenta, self._dtype)
                scale = group["lr"] * 0.2 * max(shape) ** 0.5
                for parameter, direction in zip(parameters, directions, strict=True):
                    parameter.mul_(1.0 - group["lr"] * group["weight_decay"])
                    parameter.sub_(direction, alpha=scale)

    def _momentum(self, parameter: nn.Parameter) -> Tensor:
        gradient = cast(Tensor, parameter.grad)
        state: dict[str, Any] = self.state[parameter]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(parameter)
        momentum: Tensor = state["momentum"].lerp_(gradient, 0.05)
        return gradient.lerp(momentum, 0.95)


def orthogonalised(matrices_NRC: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Approximately UVᵀ for each matrix UΣVᵀ, with singular values between 0.7 and 1.2.

    Products are computed in ``dtype``. The result has the data type of the matrices.
    """
    wide = matrices_NRC.size(1) <= matrices_NRC.size(2)
    x = matrices_NRC if wide else matrices_NRC.mT
    x = (x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)).to(dtype)
    a, b, c = _ITERATION
    for _ in range(_ITERATIONS):
        gram = x @ x.mT
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.baddbmm(x, polynomial, x, beta=a)
    return (x if wide else x.mT).to(matrices_NRC.dtype)
