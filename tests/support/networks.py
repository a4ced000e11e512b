"""Small random networks with clear decisions, and bundles of them."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import onnx
import torch

from models.bundle.bundle import SOURCE_TOKENIZER, TARGET_TOKENIZER, TOKENIZER, Bundle
from models.bundle.card import render_card
from models.bundle.manifest import (
    GRAPHS,
    DecodingDefaults,
    Direction,
    Manifest,
    Precision,
    Provenance,
    SentenceLimits,
)
from models.bundle.tokenizer import SPECIAL_IDS, train_tokenizer
from models.export.calibration import Ranges, calibrate
from models.export.graphs import build_graph, dimensions_of
from models.export.resident import build_resident
from models.export.weights import collect_weights
from models.transformer.config import TransformerConfig
from models.transformer.transformer import Transformer, build
from tests.support.tiny_training import CHOICES
from training.export.conversion import numpy_network

WORDS = [f"w{i}" for i in range(26)]
CONFIG = TransformerConfig(
    source_vocabulary=len(WORDS) + 4,
    target_vocabulary=len(WORDS) + 4,
    encoder_layers=2,
    decoder_layers=2,
    width=32,
    heads=4,
    feed_forward=64,
    max_length=24,
)


NETWORKS = {
    "usual": CONFIG,
    **{
        f"{norm}-{positions}-{tying}": replace(
            CONFIG, norm=norm, positions=positions, tying=tying, width=16, feed_forward=24
        )
        for norm, positions, tying in CHOICES
    },
    "deep encoder": replace(CONFIG, encoder_layers=3, decoder_layers=1),
    "deep decoder": replace(CONFIG, encoder_layers=1, decoder_layers=3, norm="before"),
    "one head": replace(CONFIG, heads=1),
    "two vocabularies": replace(CONFIG, source_vocabulary=40, tying="decoder"),
    "silu": replace(
        CONFIG,
        norm="before",
        activation="silu",
        positions="sinusoidal_halves",
        output_bias=True,
    ),
    "as NLLB": replace(
        CONFIG,
        norm="before",
        positions="sinusoidal_tensor2tensor",
        first_position=2,
        output_bias=True,
    ),
    "ssru": replace(
        CONFIG,
        decoder="ssru",
        norm_epsilon=1e-6,
        positions="sinusoidal_tensor2tensor",
        output_bias=True,
    ),
    "ssru before": replace(
        CONFIG, decoder="ssru", norm="before", source_vocabulary=40, tying="decoder"
    ),
    "another of everything": replace(
        CONFIG,
        source_vocabulary=40,
        tying="none",
        activation="gelu",
        output_bias=True,
        scaled_embeddings=False,
        width=16,
        feed_forward=24,
    ),
}
"""A network for every option of a configuration."""


def random_network(config: TransformerConfig = CONFIG, seed: int = 1) -> Transformer:
    """Random weights, large enough that different prefixes have clearly different continuations.

    Like a trained network, it never predicts padding: the first channel of the decoder's output is
    always one, and the output embedding of padding has a large negative weight for it.
    """
    network = build(config, seed).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() > 1:
                parameter.mul_(1.5)
            else:
                parameter.add_(torch.randn_like(parameter) * 0.2)
        last = (
            network.decoder_norm
            if config.norm == "before"
            else network.decoder_layers[-1].feed_forward_residual.norm
        )
        assert isinstance(last, torch.nn.LayerNorm)
        last.weight[0], last.bias[0] = 0.0, 1.0
        network.generator.weight[config.pad_id, 0] = -50.0
    return network


def random_ranges(network: Transformer) -> Ranges:
    """Activation ranges over random sentences."""
    rng = random.Random(5)
    first, last = 4, network.config.target_vocabulary - 1

    def sentence() -> list[int]:
        return [rng.randint(first, last) for _ in range(rng.randint(1, 12))]

    return calibrate(
        numpy_network(network),
        [((*sentence(), SPECIAL_IDS.eos), (SPECIAL_IDS.bos, *sentence())) for _ in range(64)],
    )


def write_bundle(
    network: Transformer,
    path: Path,
    precisions: tuple[Precision, ...] = ("fp32", "int8"),
    name: str = "random",
    source: str = "de",
    target: str = "en",
    directions: tuple[Direction, ...] = (),
    share_weights: bool = False,
    beam: int = 0,
) -> Bundle:
    """A bundle of a network whose pieces are the words w0, w1 …; without parity proof.

    With ``beam``, the last precision has a resident graph for that beam. With ``share_weights``,
    fp16 reads the weights of int8, which precedes it. Sides of different sizes have separate
    tokenizers. ``directions`` may replace the one from ``source`` to ``target``.
    """
    scratch = path.parent / f".scratch-{path.name}"
    scratch.mkdir(parents=True)
    sizes = {SOURCE_TOKENIZER: network.config.source_vocabulary}
    sizes[TARGET_TOKENIZER] = network.config.target_vocabulary
    if len(set(sizes.values())) == 1:
        sizes = {TOKENIZER: network.config.target_vocabulary}
    files = {"README.md": scratch / "README.md"}
    for file_name, size in sizes.items():
        files[file_name] = scratch / file_name
        words = [" ".join(f"w{i}" for i in range(size - 4))]
        train_tokenizer(words, files[file_name], vocabulary_size=size, kind="word", threads=1)
    ranges = random_ranges(network) if "int8" in precisions else None
    for precision in precisions:
        if not (share_weights and precision == "fp16"):
            weights = collect_weights(numpy_network(network), precision, ranges)
        files[weights.name] = scratch / weights.name
        for graph in GRAPHS:
            file = scratch / f"{graph}.{precision}.onnx"
            onnx.save(build_graph(graph, weights, network.config, precision), file)
            files[file.name] = file
        if beam and precision == precisions[-1]:
            file = scratch / f"resident.{precision}.onnx"
            onnx.save(build_resident(weights, network.config, precision, beam, SPECIAL_IDS), file)
            files[file.name] = file
        weights.write(scratch / weights.name)
    manifest = Manifest(
        name=name,
        version="1",
        directions=directions or (Direction(source=source, target=target),),
        dimensions=dimensions_of(network.config),
        special_ids=SPECIAL_IDS,
        limits=SentenceLimits(
            source_length=network.config.max_length, target_length=network.config.max_length
        ),
        precisions=precisions,
        int8_fits_16_bits=True,
        # The words of these networks look like codes, which the service would copy.
        decoding=DecodingDefaults(copy_without_letters=False, keep_figures=False),
        provenance=Provenance(recipe="random", commit="none", created="2026-11-21"),
    )
    files["README.md"].write_text(render_card(manifest), encoding="utf-8")
    return Bundle.write(path, manifest, files)
