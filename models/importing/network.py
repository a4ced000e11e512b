"""Import of MarianMT and M2M100 into the NumPy reference, as far as both families share it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from models.bundle.tokenizer import SPECIAL_IDS
from models.importing.checkpoint import Checkpoint
from models.importing.refusals import UnsupportedCheckpoint
from models.importing.vocabulary import Vocabulary
from models.reference.transformer import (
    FloatArray,
    ReferenceTransformer,
    sinusoids,
    weight_shapes,
)
from models.transformer.config import Activation, TransformerConfig

ACTIVATIONS: Mapping[str, Activation] = {
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
}
LARGEST_NUMBER = 2_000_000
"""Largest accepted number in a configuration, such as the size of a vocabulary."""
MOST_LAYERS = 1000
LARGEST_TABLE = 1 << 26
"""Numbers of a table of positions, which is computed before tensors of that size are seen."""
HIDDEN = -1e4
"""A logit bias that masks a piece, and that fp16 can represent."""

_LAYER = re.compile(r"(encoder|decoder)\.(\d+)\.(.+)\.(weight|bias)")
_PARTS = {
    "attention.query": "self_attn.q_proj",
    "attention.key": "self_attn.k_proj",
    "attention.value": "self_attn.v_proj",
    "attention.output": "self_attn.out_proj",
    "attention_residual.norm": "self_attn_layer_norm",
    "cross.query": "encoder_attn.q_proj",
    "cross.key": "encoder_attn.k_proj",
    "cross.value": "encoder_attn.v_proj",
    "cross.output": "encoder_attn.out_proj",
    "cross_residual.norm": "encoder_attn_layer_norm",
    "feed_forward.inner": "fc1",
    "feed_forward.outer": "fc2",
    "feed_forward_residual.norm": "final_layer_norm",
}


@dataclass(frozen=True, slots=True)
class Tables:
    """Embeddings, positions and output biases, in the rows of the checkpoint.

    Tied tables are one object.
    """

    source: FloatArray
    target: FloatArray
    output: FloatArray
    bias_V: FloatArray
    positions: tuple[FloatArray, ...] = ()
    """Learned positions of source and target; empty for sinusoids."""


def number(config: Mapping[str, Any], name: str) -> int:
    found = config.get(name)
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise UnsupportedCheckpoint(f"config.json has {name} {found!r}, which is not a number")
    if found > LARGEST_NUMBER:
        raise UnsupportedCheckpoint(
            f"config.json has {name} {found}; at most {LARGEST_NUMBER} can be imported"
        )
    return found


def sizes(config: Mapping[str, Any]) -> dict[str, Any]:
    """The options that both kinds of configuration share, by their ``TransformerConfig`` names.

    Raises ``UnsupportedCheckpoint`` for options that the graphs do not support.
    """
    for what in ("attention_heads", "ffn_dim"):
        encoder, decoder = (number(config, f"{side}_{what}") for side in ("encoder", "decoder"))
        if encoder != decoder:
            raise UnsupportedCheckpoint(
                f"encoder_{what} {encoder} and decoder_{what} {decoder} differ; a bundle has one"
            )
    activation = str(config.get("activation_function"))
    if activation not in ACTIVATIONS:
        raise UnsupportedCheckpoint(
            f"the activation {activation!r} is none of {', '.join(ACTIVATIONS)}"
        )
    return {
        "encoder_layers": number(config, "encoder_layers"),
        "decoder_layers": number(config, "decoder_layers"),
        "width": number(config, "d_model"),
        "heads": number(config, "encoder_attention_heads"),
        "feed_forward": number(config, "encoder_ffn_dim"),
        "max_length": number(config, "max_position_embeddings"),
        "activation": ACTIVATIONS[activation],
        "scaled_embeddings": bool(config.get("scale_embedding", False)),
        "output_bias": True,
        "pad_id": SPECIAL_IDS.pad,
    }


def configuration(**config: Any) -> TransformerConfig:
    """The configuration of a network; raises ``UnsupportedCheckpoint`` for one that is too large.

    The file's numbers are not to be trusted with memory before this.
    """
    layers = max(config["encoder_layers"], config["decoder_layers"])
    table = config["max_length"] * config["width"]
    if layers > MOST_LAYERS or table > LARGEST_TABLE:
        raise UnsupportedCheckpoint(
            f"it has {layers} layers, and {config['max_length']} positions of width "
            f"{config['width']}; {MOST_LAYERS} layers and {LARGEST_TABLE} numbers of positions "
            "can be imported"
        )
    try:
        return TransformerConfig(**config)
    except (ValueError, ZeroDivisionError) as error:
        raise UnsupportedCheckpoint(f"config.json makes no network: {error}") from error


def network_of(
    config: TransformerConfig,
    checkpoint: Checkpoint,
    tables: Tables,
    source: Vocabulary,
    target: Vocabulary,
) -> ReferenceTransformer:
    """The network with the layers of a checkpoint, and with rows in the order of a bundle."""
    weights = embeddings(config, tables, source, target)
    for name, shape in weight_shapes(config).items():
        if name not in weights:
            weights[name] = checkpoint.take(name_in_checkpoint(name), *shape)
    return ReferenceTransformer(config, weights)


def embeddings(
    config: TransformerConfig, tables: Tables, source: Vocabulary, target: Vocabulary
) -> dict[str, FloatArray]:
    """The weights that are not in layers, with the rows of the vocabularies."""
    of_target = tables.target[target.origins]
    of_source = of_output = of_target
    if config.tying != "all":
        of_source = tables.source[source.origins]
    if config.tying == "none":
        of_output = tables.output[target.origins]
    bias_V = tables.bias_V[target.origins]
    bias_V[target.hidden] = HIDDEN
    if config.positions == "learned":
        positions = tables.positions
    else:
        table = sinusoids(config.max_length, config.width, config.positions, config.first_position)
        positions = (table, table)
    return {
        "source_embedding.tokens.weight": of_source,
        "target_embedding.tokens.weight": of_target,
        "generator.weight": of_output,
        "generator.bias": bias_V,
        "source_embedding.positions": positions[0],
        "target_embedding.positions": positions[1],
    }


def name_in_checkpoint(name: str) -> str:
    """The name in checkpoints of a weight of the reference network."""
    layer = _LAYER.fullmatch(name)
    if layer is None:
        side, kind = name.split("_norm.")
        return f"model.{side}.layer_norm.{kind}"
    side, i, part, kind = layer.groups()
    return f"model.{side}.layers.{i}.{_PARTS[part]}.{kind}"
