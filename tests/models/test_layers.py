from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from models.transformer.attention import (
    MultiHeadAttention,
    attend,
    attend_explicitly,
)
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


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize(("scaled", "factor"), [(True, 4), (False, 1)])
def test_embedding_is_scaled_by_root_width_plus_position(
    positions: str, scaled: bool, factor: int
) -> None:
    config = tiny_config(positions=positions, scaled_embeddings=scaled)
    embedding = Embedding(nn.Embedding(15, 16), config).eval()
    embedded = embedding(torch.tensor([[5, 6]]), start=3)
    expected = embedding.tokens.weight[[5, 6]] * factor + embedding.positions[3:5]
    torch.testing.assert_close(embedded[0], expected)


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
    for length, start in ((5, 0), (1, 4)):
        with pytest.raises(ValueError, match="position 5 is beyond max_length 4"):
            embedding(torch.ones(1, length, dtype=torch.long), start=start)


@pytest.mark.parametrize("activation", ["relu", "silu", "gelu"])
def test_feed_forward_computes_equation_2_at_every_position(activation: Activation) -> None:
    layer = FeedForward(tiny_config(activation=activation)).eval()
    x = torch.randn(2, 3, 16)
    inner = x @ layer.inner.weight.T + layer.inner.bias
    gates = {
        "relu": (inner > 0).float(),
        "silu": inner.sigmoid(),
        "gelu": (1 + (inner / math.sqrt(2)).erf()) / 2,
    }
    expected = (inner * gates[activation]) @ layer.outer.weight.T + layer.outer.bias
    torch.testing.assert_close(layer(x), expected)
    torch.testing.assert_close(layer(x)[:, 1:2], layer(x[:, 1:2]))


def test_norm_before_or_after_the_sublayer() -> None:
    x = torch.randn(2, 3, 16)
    before = Residual(tiny_config(norm="before")).eval()
    after = Residual(tiny_config(norm="after")).eval()
    torch.testing.assert_close(before(x, torch.sin), x + torch.sin(before.norm(x)))
    torch.testing.assert_close(after(x, torch.sin), after.norm(x + torch.sin(x)))


def projections(seed: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(3, 2, length, 5, generator=generator) for length in (4, 6, 6))


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), hidden=st.floats(0, 0.9))
def test_fused_attention_equals_unfused_attention(seed: int, hidden: float) -> None:
    query, key, value = projections(seed)
    visible = torch.rand(3, 1, 4, 6, generator=torch.Generator().manual_seed(seed)) >= hidden
    visible[..., 0] = True
    explicit, _ = attend_explicitly(query, key, value, visible, dropout=0.0)
    torch.testing.assert_close(attend(query, key, value, visible, dropout=0.0), explicit)


def test_unfused_attention_computes_equation_1() -> None:
    query, key, value = projections(seed=1)
    found, weights = attend_explicitly(query, key, value, None, dropout=0.0)
    for place in range(4):
        scores = [float(query[0, 0, place] @ key[0, 0, k]) / math.sqrt(5) for k in range(6)]
        total = sum(map(math.exp, scores))
        expected = [math.exp(score) / total for score in scores]
        assert weights[0, 0, place].tolist() == pytest.approx(expected, rel=1e-4)
        mixed = sum(w * value[0, 0, k] for k, w in enumerate(expected))
        torch.testing.assert_close(found[0, 0, place], mixed)


def test_dropout_changes_the_output_and_not_the_map() -> None:
    query, key, value = projections(seed=3)
    torch.manual_seed(0)
    dropped, weights = attend_explicitly(query, key, value, None, dropout=0.5)
    whole, same_weights = attend_explicitly(query, key, value, None, dropout=0.0)
    assert torch.equal(weights, same_weights)
    assert not torch.allclose(dropped, whole)


def test_each_head_attends_in_its_own_slice_of_the_width() -> None:
    torch.manual_seed(1)
    attention = MultiHeadAttention(width=6, heads=2, dropout=0.0).eval()
    x = torch.randn(1, 4, 6)
    expected = []
    for part in (slice(0, 3), slice(3, 6)):
        query, key, value = (
            torch.nn.functional.linear(x, layer.weight[part], layer.bias[part])
            for layer in (attention.query, attention.key, attention.value)
        )
        expected.append((query @ key.transpose(1, 2) / math.sqrt(3)).softmax(-1) @ value)
    found = attention(*attention.queries_keys_values(x), None)
    torch.testing.assert_close(found, attention.output(torch.cat(expected, -1)))
