"""Writes a network in Marian's own format, as MarianMT, and as a CTranslate2 model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from ctranslate2.converters.marian import MarianConverter
from safetensors.numpy import save_file

from models.bundle.tokenizer import SPECIAL_IDS
from models.importing.network import name_in_checkpoint
from models.reference.transformer import FloatArray, ReferenceTransformer, sinusoids
from tests.support.checkpoints import LONGEST

TABLES = "source_embedding.tokens.weight", "target_embedding.tokens.weight", "generator.weight"
SIDES = {"encoder": ("self",), "decoder": ("self", "context")}
LETTERS = {"query": "q", "key": "k", "value": "v", "output": "o"}


def options_of(network: ReferenceTransformer, **changes: Any) -> dict[str, Any]:
    """The options that Marian stores with a model."""
    config = network.config
    before = config.norm == "before"
    return {
        "type": "transformer",
        "dim-emb": config.width,
        "dim-vocabs": [config.source_vocabulary, config.target_vocabulary],
        "enc-depth": config.encoder_layers,
        "dec-depth": config.decoder_layers,
        "input-types": [],
        "right-left": False,
        "transformer-decoder-autoreg": "self-attention",
        "transformer-dim-ffn": config.feed_forward,
        "transformer-decoder-dim-ffn": 0,
        "transformer-ffn-activation": "swish" if config.activation == "silu" else config.activation,
        "transformer-ffn-depth": 2,
        "transformer-guided-alignment-layer": "last",
        "transformer-heads": config.heads,
        "transformer-no-projection": False,
        "transformer-postprocess": "da" if before else "dan",
        "transformer-postprocess-emb": "d",
        "transformer-postprocess-top": "n" if before else "",
        "transformer-preprocess": "n" if before else "",
        "transformer-tied-layers": [],
        "transformer-train-position-embeddings": False,
        **changes,
    }


def arrays_of(
    network: ReferenceTransformer, rows: tuple[list[int], list[int]]
) -> dict[str, FloatArray]:
    """The weights under Marian's names, with these rows of the embeddings of both sides."""
    weights, config = network.weights, network.config
    source, target, output = (weights[name] for name in TABLES)
    found = {"decoder_ff_logit_out_b": weights["generator.bias"][None, rows[1]]}
    if config.tying == "all":
        found["Wemb"] = target[rows[1]]
    else:
        found |= {"encoder_Wemb": source[rows[0]], "decoder_Wemb": target[rows[1]]}
    if config.tying == "none":
        found["decoder_ff_logit_out_W"] = output[rows[1]].T

    def norm(layer: str, stored: str) -> None:
        suffix = "_pre" if config.norm == "before" and "_top" not in stored else ""
        found[f"{stored}_ln_scale{suffix}"] = weights[f"{layer}.weight"][None]
        found[f"{stored}_ln_bias{suffix}"] = weights[f"{layer}.bias"][None]

    def linear(layer: str, stored: str, letter: str) -> None:
        found[f"{stored}_W{letter}"] = weights[f"{layer}.weight"].T
        found[f"{stored}_b{letter}"] = weights[f"{layer}.bias"][None]

    for side, attentions in SIDES.items():
        layers = config.encoder_layers if side == "encoder" else config.decoder_layers
        for i in range(layers):
            layer, stored = f"{side}.{i}", f"{side}_l{i + 1}"
            if side == "decoder" and config.recurrent:
                own = f"{layer}.recurrence"
                found[f"{stored}_rnn_W"] = weights[f"{own}.input.weight"].T
                linear(f"{own}.gate", f"{stored}_rnn", "f")
                norm(f"{own}_residual.norm", f"{stored}_rnn_ffn")
            for own, name in zip(("attention", "cross"), attentions, strict=False):
                if f"{layer}.{own}.query.weight" not in weights:
                    continue
                for part, letter in LETTERS.items():
                    linear(f"{layer}.{own}.{part}", f"{stored}_{name}", letter)
                norm(f"{layer}.{own}_residual.norm", f"{stored}_{name}_Wo")
            for part, letter in (("inner", "1"), ("outer", "2")):
                linear(f"{layer}.feed_forward.{part}", f"{stored}_ffn", letter)
            norm(f"{layer}.feed_forward_residual.norm", f"{stored}_ffn_ffn")
        if config.norm == "before":
            norm(f"{side}_norm", f"{side}_top")
    return {name: np.ascontiguousarray(array) for name, array in found.items()}


def save_npz(path: Path, arrays: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    text = yaml.safe_dump(dict(options)).encode() + b"\0"
    configuration = np.frombuffer(text, np.int8)
    np.savez(path, **{"special:model.yml": configuration}, **arrays)


def write_marian_npz(
    directory: Path, network: ReferenceTransformer, checkpoint: Path, rows: Mapping[str, list[int]]
) -> Path:
    """A directory as OPUS-MT's archives; ``rows`` are those of the names of each vocabulary.

    ``checkpoint`` has the SentencePiece models and, in the same order, ``vocab.json``.
    """
    directory.mkdir()
    both = list(rows.values())
    save_npz(directory / "model.npz", arrays_of(network, (both[0], both[-1])), options_of(network))
    for name, side in zip(rows, ("src", "trg"), strict=False):
        names = json.loads((checkpoint / name).read_text(encoding="utf-8"))
        own = {piece: i for piece, i in names.items() if piece != "<pad>"}
        path = directory / f"opus.{side}.vocab.yml"
        path.write_text(yaml.safe_dump(own, allow_unicode=True, sort_keys=False), encoding="utf-8")
    for side in ("source", "target"):
        shutil.copy(checkpoint / f"{side}.spm", directory)
    return directory


def write_marianmt(
    directory: Path, network: ReferenceTransformer, checkpoint: Path, rows: Mapping[str, list[int]]
) -> Path:
    """The checkpoint with the weights of the network."""
    shutil.copytree(checkpoint, directory)
    weights, both = network.weights, list(rows.values())
    # The last row is pad's, which begins the decoder.
    source, target, output = (
        np.concatenate((weights[name][own], weights[name][[SPECIAL_IDS.bos]]))
        for name, own in zip(TABLES, (both[0], both[-1], both[-1]), strict=True)
    )
    tensors = {
        "model.encoder.embed_tokens.weight": source,
        "model.decoder.embed_tokens.weight": target,
        "lm_head.weight": output,
        "final_logits_bias": np.append(weights["generator.bias"][both[-1]], np.float32(0))[None],
    }
    for side in SIDES:
        table = sinusoids(LONGEST, network.config.width, "sinusoidal_tensor2tensor")
        tensors[f"model.{side}.embed_positions.weight"] = table
    for name, array in weights.items():
        if name.startswith(("encoder.", "decoder.")):
            tensors[name_in_checkpoint(name)] = array
    contiguous = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    save_file(contiguous, directory / "model.safetensors")
    return directory


def write_ctranslate2(directory: Path, marian: Path) -> Path:
    """The model in a directory of Marian, converted by CTranslate2, with Marian's positions."""
    vocabularies = sorted(map(str, marian.glob("*.vocab.yml")))
    spec = MarianConverter(str(marian / "model.npz"), vocabularies)._load()
    for side in (spec.encoder, spec.decoder):
        width = np.asarray(side.position_encodings.encodings).shape[1]
        table = sinusoids(512, width, "sinusoidal_tensor2tensor")
        side.position_encodings.encodings = table
    spec.validate()
    spec.optimize()
    directory.mkdir()
    spec.save(str(directory))
    for side in ("source", "target"):
        shutil.copy(marian / f"{side}.spm", directory)
    return directory
