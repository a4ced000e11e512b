"""Tests that converted CTranslate2 models compute and translate as the bundles do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import ctranslate2
import numpy as np
import onnxruntime
import pytest
import torch

from benchmarks.peers.ctranslate2 import convert, vocabulary
from models.bundle.bundle import Bundle
from models.transformer.config import TransformerConfig
from tests.support.networks import CONFIG, random_network, write_bundle

BUNDLES = Path(__file__).parents[2] / "bundles"
BOS, EOS = 2, 3
PAIRS = [
    ((5, 9, 4, EOS), (7, 7, 12)),
    ((21, EOS), (4, 29, 11, 6, 5)),
    ((8, 17, 25, 6, 6, 14, 10, EOS), ()),
]


def translator(path: Path) -> ctranslate2.Translator:
    return ctranslate2.Translator(
        str(path), device="cpu", compute_type="float32", inter_threads=1, intra_threads=1
    )


def scores_of(
    bundle: Bundle, path: Path, pairs: list[tuple[tuple[int, ...], tuple[int, ...]]]
) -> list[list[float]]:
    names = vocabulary(bundle)
    scored = translator(path).score_batch(
        [[names[i] for i in source] for source, _ in pairs],
        [[names[i] for i in target] for _, target in pairs],
    )
    return [result.log_probs for result in scored]


@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        replace(CONFIG, norm="before", tying="none"),
        replace(CONFIG, tying="decoder", positions="learned", decoder_layers=1),
    ],
    ids=["paper", "norm before", "learned positions"],
)
def test_converted_network_gives_the_same_token_probabilities(
    config: TransformerConfig, tmp_path: Path
) -> None:
    network = random_network(config)
    bundle = write_bundle(network, tmp_path / "random", ("fp32",))
    converted = convert(bundle, "fp32", tmp_path / "converted")
    before = (converted / "model.bin").stat()
    # An existing model is not converted again.
    found = scores_of(bundle, convert(bundle, "fp32", tmp_path / "converted"), PAIRS)
    assert (converted / "model.bin").stat() == before
    for (source, target), log_probs in zip(PAIRS, found, strict=True):
        with torch.no_grad():
            logits = network(torch.tensor([source]), torch.tensor([[BOS, *target]]))[0]
        expected = logits.log_softmax(-1)[range(len(target) + 1), [*target, EOS]]
        assert log_probs == pytest.approx(expected.tolist(), abs=1e-4)


def test_committed_bundle_and_its_conversion_translate_alike(tmp_path: Path) -> None:
    bundle = Bundle.open(BUNDLES / "general-de-en")
    path = convert(bundle, "int8", tmp_path / "converted")
    examples = bundle.manifest.examples
    pairs = [(example.source_ids, example.target_ids["int8"]) for example in examples]
    session = onnxruntime.InferenceSession(
        bundle.graph("attention", "int8"), providers=["CPUExecutionProvider"]
    )
    found = scores_of(bundle, path, pairs)
    differences: list[float] = []
    for (source, target), log_probs in zip(pairs, found, strict=True):
        (expected,) = session.run(
            ["target_log_probs"],
            {
                "source_ids": np.array([source], np.int32),
                "target_input_ids": np.array([[BOS, *target]], np.int32),
                "target_output_ids": np.array([[*target, EOS]], np.int32),
            },
        )
        differences += np.abs(np.array(log_probs) - expected[0]).tolist()
    # The weights are equal, but ours also quantises activations to 8 bits.
    assert np.mean(differences) < 0.05
