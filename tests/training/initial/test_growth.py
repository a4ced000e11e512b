from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest
import torch

from models.bundle.tokenizer import SPECIAL_IDS
from models.transformer.config import TransformerConfig
from models.transformer.transformer import Transformer, build
from tests.support.tiny_training import tiny_config, tiny_network
from training.initial.growth import grown, obstacles
from training.loop.objective import smoothed_loss
from training.search.greedy import greedy

SOURCE_BS = torch.tensor([[5, 6, 7, 8, 9, 3], [14, 4, 3, 0, 0, 0]])
TARGET_BT = torch.tensor([[2, 9, 8, 7], [2, 4, 14, 10]])
LARGER: dict[str, Any] = {
    "encoder_layers": 3,
    "decoder_layers": 2,
    "width": 24,
    "heads": 3,
    "feed_forward": 40,
    "positions": "learned",
}


def grown_from(old: Transformer, **sizes: Any) -> Transformer:
    new = build(replace(old.config, **sizes), seed=2).eval()
    new.load_state_dict(grown(old.state_dict(), old.config, new))
    return new


@pytest.mark.parametrize("tying", ["all", "decoder", "none"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@torch.inference_mode()
def test_grown_network_translates_like_its_origin(
    tying: Literal["all", "decoder", "none"], positions: Literal["sinusoidal", "learned"]
) -> None:
    old = tiny_network(
        norm="before", tying=tying, positions=positions, output_bias=tying == "decoder"
    )
    new = grown_from(old, **LARGER)
    expected = old(SOURCE_BS, TARGET_BT)
    torch.testing.assert_close(new(SOURCE_BS, TARGET_BT), expected, atol=1e-4, rtol=1e-4)
    translations = [greedy(each, SOURCE_BS, SPECIAL_IDS, max_length=8) for each in (old, new)]
    assert translations[0] == translations[1]


@pytest.mark.parametrize("size", ["encoder_layers", "decoder_layers", "feed_forward"])
def test_sinusoids_stay_where_the_width_does(size: str) -> None:
    old = tiny_network(norm="before")
    new = grown_from(old, **{size: LARGER[size]})
    with torch.inference_mode():
        torch.testing.assert_close(new(SOURCE_BS, TARGET_BT), old(SOURCE_BS, TARGET_BT))


def test_a_step_changes_the_additional_parts() -> None:
    new = grown_from(tiny_network(norm="before", activation="gelu"), **LARGER)
    optimiser = torch.optim.SGD(new.parameters(), lr=0.1)
    targets_N = torch.tensor([9, 8, 7, 3, 4, 14, 10, 3])
    for _ in range(2):
        optimiser.zero_grad()
        smoothed_loss(new(SOURCE_BS, TARGET_BT).flatten(0, 1), targets_N, 0.1, 0).backward()
        optimiser.step()
    unchanged = [
        name
        for name, parameter in new.named_parameters()
        # A softmax does not see what is added to every key.
        if not name.endswith("key.bias")
        and (parameter.grad is None or not parameter.grad[-1].any())
        and "tokens" not in name
        and "positions" not in name
    ]
    assert unchanged == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ({}, {"width": 24, "heads": 3}, "sinusoids"),
        ({"norm": "after"}, {"feed_forward": 40}, "norm 'before'"),
        ({}, {"width": 32, "positions": "learned"}, "heads are 8 wide, not 16"),
        ({}, {"feed_forward": 16}, "feed_forward is 24, more than 16"),
    ],
)
def test_networks_that_cannot_be_grown_have_an_obstacle(
    old: dict[str, Any], new: dict[str, Any], words: str
) -> None:
    smaller: TransformerConfig = replace(tiny_config(norm="before"), **old)
    (reason,) = obstacles(smaller, replace(smaller, **new))
    assert words in reason
    assert not [*obstacles(tiny_config(norm="before"), tiny_config(norm="before", **LARGER))]
