"""Converts a bundle's weights to a CTranslate2 model, so that both engines run one network.

Weights are read by the names in ``models.export.weights``. int8 weights are passed as dequantised
floats. CTranslate2 quantises them again, also with one scale for each output of a product. Its
scales are not larger, so that a weight changes by half a step at most, and by nothing where they
are equal.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import onnx
from ctranslate2.specs import common_spec, transformer_spec
from numpy.typing import NDArray

from models.bundle.bundle import Bundle
from models.bundle.manifest import Precision
from training.initial.bundle_weights import dequantised

FloatArray = NDArray[np.float32]

_QUANTISATION: dict[Precision, str | None] = {"fp32": None, "int8": "int8", "fp16": "float16"}
COMPUTE_TYPE: dict[Precision, str] = {"fp32": "float32", "int8": "int8", "fp16": "float16"}
"""CTranslate2's compute type for a fair comparison with each precision of our engine."""

_MODEL = "model.bin"


def convert(bundle: Bundle, precision: Precision, path: Path) -> Path:
    """Write the CTranslate2 model of a bundle to ``path`` unless it exists; returns ``path``.

    The model appears by one rename. It does not append ``eos`` to a source; the caller does.
    """
    if (path / _MODEL).is_file():
        return path
    spec = specification(bundle, precision)
    spec.validate()
    spec.optimize(quantization=_QUANTISATION[precision])
    staging = path.parent / f".{path.name}.{uuid4().hex}"
    staging.mkdir(parents=True)
    try:
        spec.save(str(staging))
        staging.rename(path)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return path


def converted(bundle: Bundle, precision: Precision, cache: Path) -> Path:
    """The model of a bundle, from a cache that keeps only the latest version's."""
    directory = cache / "ctranslate2" / f"{bundle.manifest.name}-{precision}"
    path = directory / bundle.manifest.version
    if directory.is_dir():
        for outdated in directory.iterdir():
            if outdated != path:
                shutil.rmtree(outdated)
    return convert(bundle, precision, path)


def vocabulary(bundle: Bundle) -> tuple[str, ...]:
    """CTranslate2's name of each token id; raises ``ValueError`` if the sides' names differ."""
    tokenizers = bundle.tokenizers()
    if tokenizers.source is not tokenizers.target:
        raise ValueError(f"{bundle.path} has a vocabulary for each side; this converts shared ones")
    return tokenizers.target.pieces(range(bundle.manifest.dimensions.vocabulary_size))


def specification(bundle: Bundle, precision: Precision) -> transformer_spec.TransformerSpec:
    """The network as a CTranslate2 specification, not yet quantised."""
    weights = Weights.read(bundle, precision)
    dimensions = bundle.manifest.dimensions
    spec = transformer_spec.TransformerSpec.from_config(
        (dimensions.encoder_layers, dimensions.decoder_layers),
        dimensions.heads,
        pre_norm="encoder.norm.scale" in weights.floats,
        activation=common_spec.Activation.RELU,
        # Alignment attention is the mean over all heads of the last layer.
        alignment_heads=0,
    )
    weights.embed(spec.encoder.embeddings[0], "source")
    weights.embed(spec.decoder.embeddings, "target")
    own = "target_position_table"
    positions = weights.floats["position_table"]
    spec.encoder.position_encodings.encodings = positions
    spec.decoder.position_encodings.encodings = weights.floats.get(own, positions)
    weights.linear(
        spec.decoder.projection, "generator" if "generator.weight" in weights.floats else "target"
    )
    if "encoder.norm.scale" in weights.floats:
        weights.norm(spec.encoder.layer_norm, "encoder.norm")
        weights.norm(spec.decoder.layer_norm, "decoder.norm")
    for side, stack in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        for i, layer in enumerate(stack.layer):
            name = f"{side}.{i}"
            weights.attention(
                layer.self_attention, f"{name}.attention", ("query_key_value", "output")
            )
            if side == "decoder":
                weights.attention(
                    layer.attention, f"{name}.cross", ("query", "key_value", "output")
                )
            weights.norm(layer.ffn.layer_norm, f"{name}.feed_forward.norm")
            weights.linear(layer.ffn.linear_0, f"{name}.feed_forward.inner")
            weights.linear(layer.ffn.linear_1, f"{name}.feed_forward.outer")
    _name_tokens(spec, bundle)
    return spec


def _name_tokens(spec: transformer_spec.TransformerSpec, bundle: Bundle) -> None:
    tokens, special = list(vocabulary(bundle)), bundle.manifest.special_ids
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.config.unk_token = tokens[special.unk]
    spec.config.bos_token = spec.config.decoder_start_token = tokens[special.bos]
    spec.config.eos_token = tokens[special.eos]
    spec.config.add_source_bos = spec.config.add_source_eos = False


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of a bundle by name, as floats, matrices ``[outputs, inputs]``."""

    floats: Mapping[str, FloatArray]

    @classmethod
    def read(cls, bundle: Bundle, precision: Precision) -> Weights:
        # This graph uses every weight of the network.
        arrays = dequantised(onnx.load(str(bundle.graph("attention", precision))).graph)
        return cls({name: np.asarray(array, np.float32) for name, array in arrays.items()})

    def embed(self, spec: common_spec.EmbeddingsSpec, name: str) -> None:
        # A bundle with one embedding table names it the target's.
        spec.weight = self.floats.get(f"{name}.weight", self.floats["target.weight"])

    def linear(self, spec: common_spec.LinearSpec, name: str) -> None:
        spec.weight = self.floats[f"{name}.weight"]
        if f"{name}.bias" in self.floats:
            spec.bias = self.floats[f"{name}.bias"]

    def norm(self, spec: common_spec.LayerNormSpec, name: str) -> None:
        spec.gamma = self.floats[f"{name}.scale"]
        spec.beta = self.floats[f"{name}.bias"]

    def attention(self, spec: Any, name: str, products: Sequence[str]) -> None:
        self.norm(spec.layer_norm, f"{name}.norm")
        for linear, product in zip(spec.linear, products, strict=True):
            self.linear(linear, f"{name}.{product}")
