from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tests.support.tiny_training import tiny_network
from training.loop.muon import Muon, orthogonalised
from training.loop.optimiser import optimiser_for
from training.recipe import Optimisation

MUON = Optimisation(
    tokens_per_batch=100, schedule="constant", peak_learning_rate=1e-3, optimiser="muon"
)


@given(seed=st.integers(0, 2**32), rows=st.integers(2, 12), columns=st.integers(2, 12))
def test_orthogonalised_matrices_have_singular_values_near_one(
    seed: int, rows: int, columns: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    left = torch.linalg.qr(torch.randn(rows, rows, generator=generator))[0]
    right = torch.linalg.qr(torch.randn(columns, columns, generator=generator))[0]
    rank = min(rows, columns)
    values = torch.linspace(0.5, 2.0, rank)
    matrix = left[:, :rank] @ values.diag() @ right[:, :rank].T
    found = torch.linalg.svdvals(orthogonalised(matrix[None])[0])
    assert ((found > 0.6) & (found < 1.3)).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_updates_equal_those_of_torch_but_for_the_precision(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    start = torch.randn(8, 16)
    actual, reference = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    mine = Muon([actual], weight_decay=0.1, dtype=dtype)
    library = torch.optim.Muon(
        [reference], lr=0.01, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"
    )
    mine.param_groups[0]["lr"] = 0.01
    for _ in range(5):
        gradient = torch.randn(8, 16)
        actual.grad, reference.grad = gradient.clone(), gradient.clone()
        mine.step()
        library.step()
    # bf16 has three significant digits; updates are about 0.05.
    torch.testing.assert_close(actual, reference, atol=2e-3, rtol=0)


def test_muon_takes_layer_matrices_and_adam_everything_else() -> None:
    network = tiny_network()
    optimiser = optimiser_for(network, MUON)
    groups = optimiser.param_groups
    covered = [id(parameter) for group in groups for parameter in group["params"]]
    assert sorted(covered) == sorted(map(id, network.parameters()))
    by_muon = {id(parameter) for parameter in groups[-1]["params"]}
    assert id(network.encoder_layers[0].feed_forward.inner.weight) in by_muon
    assert id(network.generator.weight) not in by_muon
    assert id(network.encoder_layers[0].feed_forward.inner.bias) not in by_muon


def test_restored_state_continues_with_the_same_weights() -> None:
    def stepped(count: int, restore_after: int | None) -> list[torch.Tensor]:
        network = tiny_network()
        optimiser = optimiser_for(network, MUON)
        generator = torch.Generator().manual_seed(3)
        for step in range(count):
            if step == restore_after:
                saved = optimiser.state_dict()
                optimiser = optimiser_for(network, MUON)
                optimiser.load_state_dict(saved)
            for group in optimiser.param_groups:
                group["lr"] = 1e-2
            for parameter in network.parameters():
                parameter.grad = torch.randn(parameter.shape, generator=generator)
            optimiser.step()
        return [parameter.detach() for parameter in network.parameters()]

    for expected, found in zip(stepped(4, None), stepped(4, 2), strict=True):
        assert torch.equal(expected, found)
