"""A bundle that training publishes reproduces its examples in the service, however unsure it is."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from models.bundle.bundle import Bundle
from models.bundle.manifest import (
    DecodingDefaults,
    Direction,
    Precision,
    Provenance,
    SentenceLimits,
)
from models.bundle.tokenizer import SPECIAL_IDS, Tokenizers, train_tokenizer
from models.export.errors import ParityError
from models.export.parity import Translated, translate_all
from models.export.publication import Publication, Sentence, publish
from models.transformer.transformer import Transformer
from service.loading.loader import load_model
from service.observability.metrics import Metrics
from service.settings import Settings
from tests.support.networks import CONFIG, WORDS, random_network
from training.export.conversion import numpy_network

SENTENCES = 16


def unsure_network(sureness: float) -> Transformer:
    """A random network whose logits are scaled, as if it had hardly been trained."""
    network = random_network(replace(CONFIG, tying="none", max_length=12))
    with torch.no_grad():
        network.generator.weight[:, 1:] *= sureness
    return network


def published(
    directory: Path, network: Transformer, precisions: Sequence[Precision] = ("int8",)
) -> tuple[Path, int]:
    """The path of a published bundle, and the number of its examples."""
    path = directory / "tokenizer.model"
    tokenizer = train_tokenizer([" ".join(WORDS)], path, vocabulary_size=30, kind="word", threads=1)
    publication = Publication(
        name="unsure",
        network=numpy_network(network),
        directions=(Direction(source="de", target="en"),),
        tokenizers=Tokenizers(tokenizer, tokenizer),
        tokenizer_files={path.name: path},
        limits=SentenceLimits(source_length=12, target_length=12),
        decoding=DecodingDefaults(beam_size=2),
        provenance=Provenance(recipe="r", commit="c", created="2026-11-22"),
    )
    rng = random.Random(1)
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(2, 5))) for _ in range(SENTENCES)]
    calibration = [
        ((*tokenizer.encode(text), SPECIAL_IDS.eos), (SPECIAL_IDS.bos, *tokenizer.encode(text)))
        for text in texts
    ]
    sentences = [Sentence(text) for text in texts]
    bundle, _ = publish(publication, sentences, calibration, directory / "bundles", precisions)
    return bundle.path, len(bundle.manifest.examples)


@pytest.mark.parametrize("sureness", [0.5, 3.0])
async def test_published_bundle_is_served(tmp_path: Path, sureness: float) -> None:
    path, examples = published(tmp_path, unsure_network(sureness))
    assert (examples > 0) == (sureness > 1)
    model = await load_model(path, Settings(), Metrics().observer)
    await model.close()


def test_sentence_whose_search_has_a_close_step_is_no_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def close(*arguments: Any) -> list[Translated]:
        return [
            replace(each, margins=dict.fromkeys(each.margins, 0.01))
            for each in translate_all(*arguments)
        ]

    monkeypatch.setattr("models.export.publication.translate_all", close)
    assert published(tmp_path, unsure_network(3.0))[1] == 0


def test_network_whose_values_exceed_fp16_is_not_published_in_it(tmp_path: Path) -> None:
    network = unsure_network(3.0)
    with torch.no_grad():
        # The residual stream of the decoder, which its last norm makes small again.
        network.decoder_layers[-1].feed_forward.outer.weight *= 2e4
    path, _ = published(tmp_path, network)
    assert Bundle.open(path).manifest.precisions == ("int8",)
    with pytest.raises(ParityError, match="fp16"):
        published(tmp_path, network, ("fp16",))
