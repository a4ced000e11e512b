"""Tests that the random benchmark network's translations are as long as their sources."""

from __future__ import annotations

from functools import cache

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.base import random_network
from models.bundle.tokenizer import SPECIAL_IDS
from models.transformer.config import TransformerConfig
from models.transformer.transformer import Transformer

WORDS = st.integers(4, 299)


@cache
def small_network() -> Transformer:
    return random_network(
        TransformerConfig(
            source_vocabulary=300,
            target_vocabulary=300,
            encoder_layers=2,
            decoder_layers=2,
            feed_forward=64,
            norm="before",
            tying="none",
            max_length=128,
        )
    )


@settings(max_examples=25)
@given(st.lists(WORDS, min_size=1, max_size=60))
def test_a_translation_is_as_long_as_its_source(words: list[int]) -> None:
    network, source = small_network(), [*words, SPECIAL_IDS.eos]
    written = [SPECIAL_IDS.bos]
    with torch.inference_mode():
        cache = network.start(torch.tensor([source]))
        while written[-1] != SPECIAL_IDS.eos and len(written) <= 2 * len(source):
            logits = network.step(torch.tensor(written[-1:]), cache)
            written.append(int(logits.argmax()))
    assert len(written) - 1 == len(source)
