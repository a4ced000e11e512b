"""Tests that attention of the committed bundles aligns words of equal meaning."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from models.bundle.bundle import Bundle
from service.runtime.attention import AttentionGraph
from service.text.alignment import Side, align_words
from service.text.words import words

BUNDLES = Path(__file__).parents[2] / "bundles"
GERMAN = "Ein kleines Mädchen in einem roten Kleid isst einen Apfel."
ENGLISH = "A little girl in a red dress is eating an apple."
SAME = {"Mädchen": "girl", "roten": "red", "Kleid": "dress", ".": "."}


@pytest.mark.parametrize(
    ("direction", "source_text", "target_text", "same"),
    [
        (0, GERMAN, ENGLISH, set(SAME.items())),
        (1, ENGLISH, GERMAN, {(en, de) for de, en in SAME.items()}),
    ],
)
def test_words_of_equal_meaning_are_aligned(
    direction: int, source_text: str, target_text: str, same: set[tuple[str, str]]
) -> None:
    bundle = Bundle.open(BUNDLES / "general-de-en")
    tokenizer, manifest = bundle.tokenizers().target, bundle.manifest
    graph = AttentionGraph.load(bundle, "int8")
    tagged = manifest.directions[direction]
    source_ids = tagged.source_ids(tokenizer.encode(source_text), manifest.special_ids.eos)
    maps = graph.run(source_ids, tokenizer.encode(target_text))
    for weights in (maps.encoder_LHSS, maps.decoder_LHTT, maps.cross_LHTS):
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    found = manifest.alignment_source
    alignment = align_words(
        maps.cross_LHTS[found.layer].mean(0)[:, len(tagged.source_prefix) :],
        Side(words(source_text), tokenizer.spans(source_text)),
        Side(words(target_text), tokenizer.spans(target_text)),
        shifted=found.shifted,
    )
    linked = {
        (
            source_text[slice(*alignment.source_words[link.source])],
            target_text[slice(*alignment.target_words[link.target])],
        )
        for link in alignment.links()
    }
    assert same <= linked
