from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from models.transformer.config import Activation, Positions
from models.transformer.layers import Embedding, FeedForward, Residual, sinusoids
from tests.support.tiny_training import tiny_config


@pytest.mark.parametrize(
    ("kind", "exponent", "step", "cosine"),
    [("sinusoidal", 2 / 8, 2, 1), ("sinusoidal_tensor2tensor", 1 / 3, 1, 4)],
)
def test_sinusoids_match_the_paper_or_span_a_factor_of_ten_thousand(
    kind: Positions, exponent: float, step: int, cosine: int
) -> None:
    table = sinusoids(50, 8, kind)
    for position in (0, 1, 7, 49):
        for i in range(4):
            angle = position / 10_000 ** (i * exponent)
            assert float(table[position, step * i]) == pytest.approx(math.sin(angle), abs=1e-5)
            cosine_at = float(table[position, step * i + cosine])
            assert cosine_at == pytest.approx(math.cos(angle), abs=1e-5)


def test_halves_hold_the_same_sinusoids_sines_first() -> None:
    table, halves = sinusoids(length=50, width=8), sinusoids(50, 8, "sinusoidal_halves")
    torch.testing.assert_close(halves[:, :4], table[:, 0::2])
    torch.testing.assert_close(halves[:, 4:], table[:, 1::2])


def test_sinusoids_can_begin_at_a_later_position() -> None:
    torch.testing.assert_close(sinusoids(10, 8, first=3), sinusoids(13, 8)[3:])
    embedding = Embedding(nn.Embedding(15, 16), tiny_config(first_position=2))
    torch.testing.assert_close(embedding.positions, sinusoids(16, 16, first=2))


def test_a_shift_of_sinusoids_is_a_rotation() -> None:
    """The paper's reason for sinusoids: PE(pos + k) is a linear function of PE(pos)."""
    table = sinusoids(length=40, width=6).double()
    shift = torch.linalg.lstsq(table[:30], table[5:35]).solution
    torch.testing.assert_close(table[:35] @ shift, table[5:], atol=1e-4, rtol=0)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_embedding_is_scaled_by_root_width_plus_position(positions: str) -> None:
    config = tiny_config(positions=positions)
    embedding = Embedding(nn.Embedding(15, 16), config).eval()
    embedded = embedding(torch.tensor([[5, 6]]), start=3)
    expected = embedding.tokens.weight[[5, 6]] * 4 + embedding.positions[3:5]
    torch.testing.assert_close(embedded[0], expected)


def test_unscaled_embedding_is_token_plus_position() -> None:
    embedding = Embedding(nn.Embedding(15, 16), tiny_config(scaled_embeddings=False)).eval()
    expected = embedding.tokens.weight[[5, 6]] + embedding.positions[:2]
    torch.testing.assert_close(embedding(torch.tensor([[5, 6]]))[0], expected)


def test_only_learned_positions_are_parameters() -> None:
    learned = Embedding(nn.Embedding(15, 16), tiny_config(positions="learned"))
    fixed = Embedding(nn.Embedding(15, 16), tiny_config(positions="sinusoidal"))
    assert "positions" in dict(learned.named_parameters())
    assert "positions" not in dict(fixed.named_parameters())
    assert "positions" not in fixed.state_dict()


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_a_position_beyond_the_longest_is_named(positions: str) -> None:
    embedding = Embedding(nn.Embedding(15, 16), tiny_config(positions=positions, max_length=4))
    embedding(torch.ones(1, 4, dtype=torch.long))
    with pytest.raises(ValueError, match="position 5 is beyond max_length 4"):
        embedding(torch.ones(1, 5, dtype=torch.long))
    with pytest.raises(ValueError, match="position 5 is beyond max_length 4"):
        embedding(torch.ones(1, 1, dtype=torch.long), start=4)


def test_feed_forward_computes_equation_2_at_every_position() -> None:
    layer = FeedForward(tiny_config()).eval()
    x = torch.randn(2, 3, 16)
    inner = (x @ layer.inner.weight.T + layer.inner.bias).clamp(min=0)
    torch.testing.assert_close(layer(x), inner @ layer.outer.weight.T + layer.outer.bias)
    torch.testing.assert_close(layer(x)[:, 1:2], layer(x[:, 1:2]))


@pytest.mark.parametrize("activation", ["silu", "gelu"])
def test_feed_forward_with_silu_or_gelu(activation: Activation) -> None:
    layer = FeedForward(tiny_config(activation=activation)).eval()
    x = torch.randn(2, 3, 16)
    inner = x @ layer.inner.weight.T + layer.inner.bias
    gates = {"silu": inner.sigmoid(), "gelu": (1 + (inner / math.sqrt(2)).erf()) / 2}
    expected = (inner * gates[activation]) @ layer.outer.weight.T + layer.outer.bias
    torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"positions": "sinusoidal_halves", "width": 9, "heads": 3}, "even width, not 9"),
        ({"positions": "sinusoidal_tensor2tensor", "width": 2}, "a width of 4 at least"),
        ({"first_position": -1}, "must not be negative, as -1 is"),
        ({"positions": "learned", "first_position": 1}, "learned positions have no first_position"),
    ],
)
def test_invalid_positions_are_refused(changes: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        tiny_config(**changes)


def test_norm_before_or_after_the_sublayer() -> None:
    x = torch.randn(2, 3, 16)
    before = Residual(tiny_config(norm="before")).eval()
    after = Residual(tiny_config(norm="after")).eval()
    torch.testing.assert_close(before(x, torch.sin), x + torch.sin(before.norm(x)))
    torch.testing.assert_close(after(x, torch.sin), after.norm(x + torch.sin(x)))
