"""Builds a bundle of the paper's base network with random weights, for speed benchmarks.

    python -m benchmarks.base [--cache DIRECTORY]

The output length of a plain random network would depend on rounding, and so on the engine. This
network ends by its weights, not by a forced length. The first head of the last layer's
cross-attention attends from target position t to source position t. It copies whether ``eos``
stands there to a separate channel, which raises the logit of ``eos``. A translation has as many
tokens as its source in any engine; everything else is random.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import numpy as np
import onnx
import torch
from torch import nn

from models.bundle.bundle import MANIFEST, MODEL_CARD, TOKENIZER, Bundle, graph_file
from models.bundle.manifest import (
    GRAPHS,
    Direction,
    InvalidBundle,
    Manifest,
    Precision,
    Provenance,
    SentenceLimits,
)
from models.bundle.tokenizer import SPECIAL_IDS, train_tokenizer
from models.export.calibration import calibrate
from models.export.graphs import build_graph, dimensions_of
from models.export.resident import build_resident
from models.export.weights import collect_weights
from models.transformer.config import TransformerConfig
from models.transformer.layers import DecoderLayer, EncoderLayer
from models.transformer.transformer import Transformer, build
from training.export.conversion import numpy_network

CACHE = Path("build/benchmarks")
"""Cache of expensive benchmark inputs; not part of the repository."""

PRECISIONS: tuple[Precision, ...] = ("fp32", "int8", "fp16")
SEED = 7
BEAM = 4
"""The widest beam of the resident graph."""
CALIBRATION_SENTENCES = 64
CONFIG = TransformerConfig(
    source_vocabulary=32_000, target_vocabulary=32_000, norm="before", tying="none", max_length=256
)
FIRST_WORD = 4
"""The first token id of a word; smaller ids are special."""

# The fastest sinusoids distinguish neighbouring positions. One head has room for 32 of them.
_POSITION_CHANNELS = range(64)
# The slowest sines are below 0.03 at all positions, so their channels are free. After a norm, the
# silent channel holds the norm's shift, which is subtracted from other channels where it matters.
_ENDS_CHANNEL = -2
_SILENT_CHANNEL = -4
_CONSTANT_CHANNEL = -1

_SOURCES = ("models/export", "models/reference", "models/transformer", "models/bundle")


def base_bundle(cache: Path = CACHE) -> Bundle:
    """The bundle ``base``; written unless the cache has one made by this version of the code."""
    path = cache / "bundles" / "base"
    version = _code_version()
    if (path / MANIFEST).is_file():
        try:
            bundle = Bundle.open(path)
        except InvalidBundle:
            # Made by other code: replaced below, as is an outdated version.
            pass
        else:
            if bundle.manifest.version == version:
                return bundle
    return write_base_bundle(path, version)


def write_base_bundle(path: Path, version: str) -> Bundle:
    network = numpy_network(random_network())
    scratch = path.parent / f".scratch-{uuid4().hex}"
    scratch.mkdir(parents=True)
    try:
        words = [f"t{i}" for i in range(FIRST_WORD, CONFIG.target_vocabulary)]
        train_tokenizer(
            [" ".join(words)],
            scratch / TOKENIZER,
            vocabulary_size=CONFIG.target_vocabulary,
            kind="word",
            threads=1,
        )
        ranges = calibrate(network, _sentences(CALIBRATION_SENTENCES))
        for precision in PRECISIONS:
            weights = collect_weights(network, precision, ranges)
            for graph in GRAPHS:
                model = build_graph(graph, weights, CONFIG, precision)
                onnx.save(model, scratch / graph_file(graph, precision))
            if precision == "fp16":
                resident = build_resident(weights, CONFIG, precision, BEAM, SPECIAL_IDS)
                onnx.save(resident, scratch / graph_file("resident", precision))
            weights.write(scratch / weights.name)
        manifest = Manifest(
            name="base",
            version=version,
            directions=(Direction(source="de", target="en"),),
            dimensions=dimensions_of(CONFIG),
            special_ids=SPECIAL_IDS,
            limits=SentenceLimits(source_length=CONFIG.max_length, target_length=CONFIG.max_length),
            precisions=PRECISIONS,
            int8_fits_16_bits=True,
            provenance=Provenance(recipe="random weights", commit="none", created="2026-11-21"),
        )
        (scratch / MODEL_CARD).write_text("Random weights, for measurements.\n", encoding="utf-8")
        return Bundle.write(path, manifest, {file.name: file for file in scratch.iterdir()})
    finally:
        shutil.rmtree(scratch)


def _sentences(count: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Random sources, each with a random translation prefix of the same length."""
    random = np.random.default_rng(SEED)

    def words(length: int) -> tuple[int, ...]:
        return tuple(random.integers(FIRST_WORD, CONFIG.target_vocabulary, length).tolist())

    lengths = random.integers(3, 60, count).tolist()
    return [
        ((*words(length), SPECIAL_IDS.eos), (SPECIAL_IDS.bos, *words(length))) for length in lengths
    ]


@torch.no_grad()
def random_network(config: TransformerConfig = CONFIG) -> Transformer:
    """The network described above; the same at every call.

    Its width must be that of the base network, because the sinusoids depend on it.
    """
    network = build(config, SEED).eval()
    random = torch.Generator().manual_seed(SEED)
    for module in network.modules():
        if isinstance(module, nn.Linear) and module.bias is not None:
            module.bias.normal_(std=0.02, generator=random)
    # The values of the special channels pass unchanged from input to output.
    kept = [*_POSITION_CHANNELS, _ENDS_CHANNEL, _SILENT_CHANNEL]
    layers: list[EncoderLayer | DecoderLayer] = [*network.encoder_layers, *network.decoder_layers]
    for layer in layers:
        layer.feed_forward.outer.weight *= 1.4
        _silence(layer.attention.output, kept)
        _silence(layer.feed_forward.outer, kept)
    for decoder_layer in network.decoder_layers:
        _silence(decoder_layer.cross.output, kept)
    for embedding in (network.source_embedding, network.target_embedding):
        table = embedding.tokens.weight
        table[:, kept] = 0
        table[SPECIAL_IDS.eos, _ENDS_CHANNEL] = 8 / embedding.scale
    _align(network)
    _listen(network, random)
    return network


def _silence(linear: nn.Linear, channels: Sequence[int]) -> None:
    linear.weight[channels] = 0
    linear.bias[channels] = 0


def _align(network: Transformer) -> None:
    """First head of the last cross-attention: matches positions, copies the "ends here" channel."""
    cross = network.decoder_layers[-1].cross
    head = range(network.config.head_width)
    _silence(cross.query, head)
    _silence(cross.key, head)
    for place, channel in enumerate(_POSITION_CHANNELS):
        for linear in (cross.query, cross.key):
            linear.weight[place, channel] = 7
            linear.weight[place, _SILENT_CHANNEL] = -7
    _silence(cross.value, [0])
    cross.value.weight[0, _ENDS_CHANNEL] = 1
    cross.value.weight[0, _SILENT_CHANNEL] = -1
    # The copied word makes consecutive steps differ.
    cross.output.weight[:, head] *= 6
    cross.output.weight[:, 0] = 0
    cross.output.weight[_ENDS_CHANNEL, 0] = 16


def _listen(network: Transformer, random: torch.Generator) -> None:
    """Output embeddings: ``eos`` reads the channel, words are random, other ids never win."""
    norm, table = network.decoder_norm, network.generator.weight
    assert isinstance(norm, nn.LayerNorm)
    # A wide spread of logits, as in trained networks.
    norm.weight.fill_(4)
    norm.weight[_CONSTANT_CHANNEL], norm.bias[_CONSTANT_CHANNEL] = 0, 1
    table.normal_(std=network.config.width**-0.5, generator=random)
    table[:, _ENDS_CHANNEL] = 0
    for special, bias in (
        (SPECIAL_IDS.pad, -30.0),
        (SPECIAL_IDS.unk, -30.0),
        (SPECIAL_IDS.bos, -30.0),
        (SPECIAL_IDS.eos, -2.0),
    ):
        table[special] = 0
        table[special, _CONSTANT_CHANNEL] = bias
    table[SPECIAL_IDS.eos, _ENDS_CHANNEL] = 1


def _code_version() -> str:
    """A digest of all code that determines the bundle's content."""
    root = Path(__file__).parents[1]
    files = [Path(__file__), *(file for each in _SOURCES for file in (root / each).glob("*.py"))]
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.base", description=__doc__)
    parser.add_argument("--cache", type=Path, default=CACHE)
    bundle = base_bundle(parser.parse_args(arguments).cache)
    print(f"{bundle.path}: version {bundle.manifest.version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
