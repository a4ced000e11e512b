"""Recipes of both versions of the base model in tensor2tensor, the paper's own code.

``transformer_base_v1`` is what the paper describes: the norm after each sub-layer, dropout outside
of them only, 4,000 steps of warm-up. ``transformer_base_v2`` has the norm before, dropout within
attention and feed-forward too, 8,000 steps of warm-up, and twice the rate. Both average gradients
over eight devices of 4,096 tokens, and share a vocabulary of 2^15 pieces.
"""

from __future__ import annotations

from dataclasses import replace

from training.recipe import Recipe
from training.recipes.paper import paper_base_en_de

TOKENS = 4_096
DEVICES = 8


def tensor2tensor_v1() -> Recipe:
    base = paper_base_en_de()
    return replace(
        base,
        name="tensor2tensor-v1-en-de",
        vocabulary=replace(base.vocabulary, size=2**15),
        optimisation=replace(base.optimisation, tokens_per_batch=TOKENS, accumulate=DEVICES),
        budget=replace(base.budget, steps=250_000),
        effort="4.5 million pairs; 250,000 steps of 33 thousand tokens, for a large GPU",
    )


def tensor2tensor_v2() -> Recipe:
    first = tensor2tensor_v1()
    warmup = 8_000
    return replace(
        first,
        name="tensor2tensor-v2-en-de",
        network=replace(
            first.network, norm="before", attention_dropout=0.1, feed_forward_dropout=0.1
        ),
        optimisation=replace(
            first.optimisation,
            schedule="inverse_sqrt",
            # Twice the peak of the paper's equation 3.
            peak_learning_rate=2.0 * (first.network.width * warmup) ** -0.5,
            warmup=warmup,
        ),
    )
