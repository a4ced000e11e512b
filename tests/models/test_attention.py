from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.transformer.attention import (
    KeysValues,
    MultiHeadAttention,
    attend,
    attend_explicitly,
)


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


def test_attention_drops_weights_only_in_training(monkeypatch: pytest.MonkeyPatch) -> None:
    attention = MultiHeadAttention(width=4, heads=1, dropout=0.3)
    x = torch.randn(1, 2, 4)
    rates: list[float] = []

    def recording(
        query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, visible: None, dropout: float
    ) -> torch.Tensor:
        rates.append(dropout)
        return attend(query, key, value, visible, 0.0)

    monkeypatch.setattr("models.transformer.attention.attend", recording)
    attention.train()(*attention.queries_keys_values(x), None)
    attention.eval()(*attention.queries_keys_values(x), None)
    assert rates == [0.3, 0.0]


def test_keys_and_values_append_and_select_rows() -> None:
    first, second = torch.randn(2, 1, 3, 4), torch.randn(2, 1, 1, 4)
    grown = KeysValues(first, first + 1).append(KeysValues(second, second + 1))
    assert torch.equal(grown.key[:, :, :3], first)
    assert torch.equal(grown.value[:, :, 3:], second + 1)
    chosen = grown.select(torch.tensor([1, 1, 0]))
    assert torch.equal(chosen.key, grown.key[[1, 1, 0]])
    assert torch.equal(chosen.value, grown.value[[1, 1, 0]])
