from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from models.transformer.attention import (
    MultiHeadAttention,
    attend,
    attend_explicitly,
)
from models.transformer.config import Activation, Positions, TransformerConfig
from models.transformer.layers import Embedding, FeedForward, Residual, sinusoids
from models.transformer.transformer import Transformer, build
from tests.support.tiny_training import CHOICES, tiny_config, tiny_network

SOURCE = torch.tensor([[5, 6, 7, 8, 3], [9, 10, 3, 0, 0], [4, 3, 0, 0, 0]])
TARGET = torch.tensor([[2, 8, 7, 6], [2, 10, 9, 0], [2, 0, 0, 0]])

every_choice = pytest.mark.parametrize(("norm", "positions", "tying"), CHOICES)


@every_choice
def test_fused_logits_equal_those_of_attention_maps(norm: str, positions: str, tying: str) -> None:
    network = tiny_network(norm=norm, positions=positions, tying=tying)
    with torch.inference_mode():
        logits, _ = network.attention_maps(SOURCE, TARGET)
        # Outputs at padding are meaningless.
        real = TARGET != 0
        torch.testing.assert_close(network(SOURCE, TARGET)[real], logits[real])


def gradients(network: Transformer, logits: Tensor) -> list[Tensor]:
    real = TARGET != 0
    weights = torch.linspace(-1.0, 1.0, int(real.sum()) * logits.size(-1)).view(-1, logits.size(-1))
    loss = (logits[real].log_softmax(-1) * weights).sum()
    return list(torch.autograd.grad(loss, list(network.parameters())))


def test_causal_mask_alone_gives_the_gradients_of_both_masks() -> None:
    network = tiny_network()
    causal = gradients(network, network(SOURCE, TARGET))
    both_masks = gradients(network, network.attention_maps(SOURCE, TARGET)[0])
    torch.testing.assert_close(causal, both_masks)


def test_attention_maps_are_distributions_with_no_weight_on_padding() -> None:
    with torch.inference_mode():
        _, maps = tiny_network().attention_maps(SOURCE, TARGET)
    for keys, kinds in ((SOURCE, maps.encoder + maps.cross), (TARGET, maps.decoder)):
        for weights in kinds:
            torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
            assert not weights.masked_select((keys == 0)[:, None, None, :]).any()


def test_future_tokens_do_not_change_past_logits() -> None:
    network = tiny_network()
    changed = TARGET.clone()
    changed[:, 2:] = torch.tensor([11, 12])
    with torch.inference_mode():
        before, after = network(SOURCE, TARGET), network(SOURCE, changed)
    assert torch.equal(before[:, :2], after[:, :2])
    assert not torch.allclose(before[:, 2:], after[:, 2:])


@every_choice
def test_padding_does_not_change_logits(norm: str, positions: str, tying: str) -> None:
    network = tiny_network(norm=norm, positions=positions, tying=tying)
    with torch.inference_mode():
        together = network(SOURCE, TARGET)
        for row in range(len(SOURCE)):
            source = SOURCE[row][SOURCE[row] != 0][None]
            target = TARGET[row][TARGET[row] != 0][None]
            torch.testing.assert_close(
                together[row : row + 1, : target.size(1)], network(source, target)
            )


@every_choice
def test_cached_steps_equal_teacher_forcing(norm: str, positions: str, tying: str) -> None:
    network = tiny_network(norm=norm, positions=positions, tying=tying, decoder_layers=2)
    target = torch.randint(4, 15, (3, 16), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        cache = network.start(SOURCE)
        steps = [network.step(tokens, cache) for tokens in target.T]
        torch.testing.assert_close(torch.stack(steps, 1), network(SOURCE, target))
    assert cache.length == 16


def test_selected_cache_rows_continue_their_prefixes() -> None:
    network = tiny_network(decoder_layers=2)
    rows = torch.tensor([2, 0, 0, 1])
    last = torch.tensor([11, 12, 13, 14])
    with torch.inference_mode():
        unopened = network.start(SOURCE).select(rows)
        torch.testing.assert_close(
            network.step(torch.full((4,), 2), unopened),
            network(SOURCE[rows], torch.full((4, 1), 2))[:, 0],
        )
        cache = network.start(SOURCE)
        prefix = torch.tensor([[2, 5, 6], [2, 7, 8], [2, 9, 10]])
        for tokens in prefix.T:
            network.step(tokens, cache)
        found = network.step(last, cache.select(rows))
        expected = network(SOURCE[rows], torch.cat((prefix[rows], last[:, None]), 1))[:, -1]
    torch.testing.assert_close(found, expected)


def counted(config: TransformerConfig) -> int:
    with torch.device("meta"):
        return Transformer(config).num_parameters


def test_parameter_count_is_the_sum_of_its_parts() -> None:
    width, inner, vocabulary = 16, 24, 15
    attention_size = 4 * (width * width + width)
    feed_forward = 2 * width * inner + inner + width
    norm = 2 * width
    encoder = 2 * (attention_size + feed_forward + 2 * norm)
    decoder = 2 * attention_size + feed_forward + 3 * norm
    embedding = vocabulary * width
    after = encoder + decoder + embedding
    assert counted(tiny_config()) == after
    assert counted(tiny_config(norm="before")) == after + 2 * norm
    assert counted(tiny_config(tying="decoder")) == after + embedding
    assert counted(tiny_config(tying="none")) == after + 2 * embedding
    assert counted(tiny_config(positions="learned")) == after + 2 * 16 * width


@pytest.mark.parametrize(("tying", "matrices"), [("all", 1), ("decoder", 2), ("none", 3)])
def test_tying_shares_matrices(tying: str, matrices: int) -> None:
    network = tiny_network(tying=tying)
    weights = [
        network.source_embedding.tokens.weight,
        network.target_embedding.tokens.weight,
        network.generator.weight,
    ]
    assert len(set(map(id, weights))) == matrices
    assert (weights[1] is weights[2]) == (tying != "none")
    network(SOURCE, TARGET).sum().backward()
    assert all(weight.grad is not None for weight in weights)
    # Tied matrices stay tied when weights are loaded.
    other = tiny_network(2, tying=tying)
    other.load_state_dict(network.state_dict())
    with torch.inference_mode():
        assert torch.equal(other(SOURCE, TARGET), network(SOURCE, TARGET))
    tied = other.generator.weight is other.target_embedding.tokens.weight
    assert tied == (tying != "none")


def test_vocabulary_sizes_may_differ_unless_all_matrices_are_tied() -> None:
    with pytest.raises(ValueError, match="source has 15 pieces and target 9"):
        tiny_config(target_vocabulary=9)
    network = tiny_network(target_vocabulary=9, tying="decoder")
    assert network(SOURCE, TARGET.clamp(max=8)).shape == (3, 4, 9)


RATES = ("residual_dropout", "attention_dropout", "feed_forward_dropout", "embedding_dropout")
NO_DROPOUT: dict[str, Any] = dict.fromkeys(RATES, 0.0)


@pytest.mark.parametrize("norm", ["before", "after"])
@pytest.mark.parametrize("which", [None, *RATES])
def test_each_dropout_rate_changes_logits_in_training_only(which: str | None, norm: str) -> None:
    rates = NO_DROPOUT if which is None else {**NO_DROPOUT, which: 0.5}
    network = tiny_network(norm=norm, **rates)
    expected = network.eval()(SOURCE, TARGET)
    found = network.train()(SOURCE, TARGET)
    assert torch.allclose(found, expected, atol=1e-5) == (which is None)
    torch.testing.assert_close(network.eval()(SOURCE, TARGET), expected)


def test_matrices_start_within_xaviers_bounds_and_biases_at_zero() -> None:
    network = build(tiny_config(width=32, feed_forward=64, tying="none"), seed=1)
    for name, module in network.named_modules():
        if isinstance(module, nn.Linear):
            bound = math.sqrt(6 / (module.in_features + module.out_features))
            largest = float(module.weight.detach().abs().max())
            assert 0.8 * bound < largest <= bound, name
            if module.bias is not None:
                assert not module.bias.any(), name


@pytest.mark.parametrize("tying", ["all", "decoder", "none"])
def test_embeddings_start_with_unit_variance_once_scaled(tying: str) -> None:
    sizes = {"source_vocabulary": 400, "target_vocabulary": 400, "width": 32}
    network = build(tiny_config(**sizes, tying=tying), seed=1)
    for embedding in (network.source_embedding, network.target_embedding):
        scaled = embedding.tokens.weight.detach() * embedding.scale
        assert float(scaled.std()) == pytest.approx(1.0, abs=0.05)


def test_the_same_seed_builds_the_same_network() -> None:
    one, same, other = (build(tiny_config(), seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    "changes",
    [
        {"heads": 3},
        {"width": 15, "heads": 5},
        {"residual_dropout": 1.0},
        {"embedding_dropout": -0.1},
        {"positions": "sinusoidal_halves", "width": 9, "heads": 3},
        {"positions": "sinusoidal_tensor2tensor", "width": 2},
        {"first_position": -1},
        {"positions": "learned", "first_position": 1},
    ],
)
def test_invalid_configuration_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="|".join(changes)):
        tiny_config(**changes)


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
