"""Writes CTranslate2 models and Argos packages with random weights, and translates with imports."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
from ctranslate2.specs import common_spec, transformer_spec

from models.bundle.tokenizer import SPECIAL_IDS
from models.importing.model import Imported
from models.reference.beam import Searching
from models.reference.decoding import ReferenceDecoder
from tests.support.checkpoints import sentences, train_spm

WIDTH, HEADS, INNER = 16, 4, 24


def random_spec(
    pieces: list[str],
    *,
    pre_norm: bool = False,
    activation: common_spec.Activation = common_spec.Activation.RELU,
    positions: bool = True,
    scale: bool | float = True,
    tying: str = "all",
    biases: bool = True,
    layers: tuple[int, int] = (2, 2),
    gain: float = 1.5,
    **attributes: Any,
) -> transformer_spec.TransformerSpec:
    """A network with random weights, as a converter would describe it.

    With the default ``gain``, translations vary; int8 reproduces networks of a smaller one.
    """
    rng = np.random.default_rng(3)

    def matrix(*shape: int) -> Any:
        return (rng.normal(size=shape) * shape[-1] ** -0.5 * gain).astype(np.float32)

    def vector(size: int, around: float = 0.0) -> Any:
        return (around + rng.normal(size=size) * 0.2).astype(np.float32)

    def linear(spec: Any, outputs: int, inputs: int) -> None:
        spec.weight = matrix(outputs, inputs)
        if biases:
            spec.bias = vector(outputs)

    def norm(spec: Any) -> None:
        spec.gamma, spec.beta = vector(WIDTH, 1.0), vector(WIDTH)

    spec = transformer_spec.TransformerSpec.from_config(
        layers, HEADS, pre_norm=pre_norm, activation=activation
    )
    tables = [matrix(len(pieces), WIDTH) for _ in range(3)]
    if tying != "none":
        tables[2] = tables[1]
    if tying == "all":
        tables[0] = tables[1]
    spec.encoder.embeddings[0].weight, spec.decoder.embeddings.weight = tables[:2]
    spec.decoder.projection.weight = tables[2]
    if biases:
        spec.decoder.projection.bias = vector(len(pieces))
    for side in (spec.encoder, spec.decoder):
        side.scale_embeddings = scale
        if positions:
            side.position_encodings.encodings = matrix(64, WIDTH)
        if pre_norm:
            norm(side.layer_norm)
        for layer in side.layer:
            linear(layer.self_attention.linear[0], 3 * WIDTH, WIDTH)
            linear(layer.self_attention.linear[1], WIDTH, WIDTH)
            norm(layer.self_attention.layer_norm)
            if side is spec.decoder:
                for part, outputs in zip(layer.attention.linear, (1, 2, 1), strict=True):
                    linear(part, outputs * WIDTH, WIDTH)
                norm(layer.attention.layer_norm)
            linear(layer.ffn.linear_0, INNER, WIDTH)
            linear(layer.ffn.linear_1, WIDTH, INNER)
            norm(layer.ffn.layer_norm)
    for name, value in attributes.items():
        setattr(spec.decoder if hasattr(spec.decoder, name) else spec.config, name, value)
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    return spec


def saved(directory: Path, *, quantization: str | None = None, **options: Any) -> Path:
    """A model directory with its SentencePiece model."""
    directory.mkdir()
    texts = [*sentences("source", 100), *sentences("target", 100)]
    pieces = train_spm(texts, directory / "sentencepiece.model", 80)
    assert pieces[:3] == ["<unk>", "<s>", "</s>"]
    spec = random_spec(["<blank>", *pieces], **options)
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(directory))
    return directory


def hypotheses(
    imported: Imported, texts: list[str], beam_size: int, longest: int = 64
) -> list[tuple[list[str], float]]:
    """The best of each text."""
    source, target = (
        sentencepiece.SentencePieceProcessor(model_proto=content)
        for content in (imported.source_model, imported.target_model)
    )
    decoder = ReferenceDecoder(imported.network)
    searching = Searching(SPECIAL_IDS, beam_size, 1.0)
    end = [SPECIAL_IDS.eos] if imported.source_eos else []
    found = []
    for text in texts:
        best = searching.best(decoder, [*source.encode(text), *end], longest)[0]
        found.append(([target.id_to_piece(i) for i in best.token_ids], best.score))
    return found


def package(directory: Path) -> bytes:
    """A package of Argos Translate from French to English; ``directory`` is its working place."""
    model = saved(directory / "model", gain=0.5)
    path = directory / "a.argosmodel"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("p/metadata.json", json.dumps({"from_code": "fr", "to_code": "en"}))
        for file in model.iterdir():
            inner = file.name if file.name.endswith(".model") else f"model/{file.name}"
            archive.write(file, f"p/{inner}")
    return path.read_bytes()
