"""Converts MarianMT and M2M100 weights, which share layer names, to our network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from models.bundle.tokenizer import SPECIAL_IDS
from models.transformer.attention import MultiHeadAttention
from models.transformer.config import Activation, TransformerConfig
from models.transformer.layers import FeedForward
from models.transformer.transformer import Transformer
from training.importing.checkpoint import Checkpoint
from training.importing.refusals import UnsupportedCheckpoint
from training.importing.vocabulary import Vocabulary

ACTIVATIONS: Mapping[str, Activation] = {
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
}
HIDDEN = -1e4
"""A logit bias that masks a piece, and that fp16 can represent."""


def number(config: Mapping[str, Any], name: str) -> int:
    found = config.get(name)
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise UnsupportedCheckpoint(f"config.json has {name} {found!r}, which is not a number")
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


def new_network(**config: Any) -> Transformer:
    """A network whose weights are not initialised."""
    try:
        return Transformer(TransformerConfig(**config)).eval()
    except (ValueError, ZeroDivisionError) as error:
        raise UnsupportedCheckpoint(f"config.json makes no network: {error}") from error


@torch.no_grad()
def fill_embeddings(
    network: Transformer,
    tables: tuple[Tensor, Tensor, Tensor],
    bias_V: Tensor,
    source: Vocabulary,
    target: Vocabulary,
) -> None:
    """``tables`` are of source, target and output, with the checkpoint's rows, as has the bias.

    Tied embeddings are filled repeatedly with the same table.
    """
    of_source, of_target, of_output = tables
    network.source_embedding.tokens.weight.copy_(of_source[source.origins])
    network.target_embedding.tokens.weight.copy_(of_target[target.origins])
    network.generator.weight.copy_(of_output[target.origins])
    network.generator.bias.copy_(bias_V[target.origins])
    network.generator.bias[target.hidden] = HIDDEN


@torch.no_grad()
def fill_layers(network: Transformer, checkpoint: Checkpoint) -> None:
    """Fill all weights except the embeddings."""
    for i, layer in enumerate(network.encoder_layers):
        name = f"model.encoder.layers.{i}"
        _attention(checkpoint, f"{name}.self_attn", layer.attention)
        _fill(checkpoint, f"{name}.self_attn_layer_norm", layer.attention_residual.norm)
        _feed_forward(checkpoint, name, layer.feed_forward)
        _fill(checkpoint, f"{name}.final_layer_norm", layer.feed_forward_residual.norm)
    for i, decoder_layer in enumerate(network.decoder_layers):
        name = f"model.decoder.layers.{i}"
        _attention(checkpoint, f"{name}.self_attn", decoder_layer.attention)
        _fill(checkpoint, f"{name}.self_attn_layer_norm", decoder_layer.attention_residual.norm)
        _attention(checkpoint, f"{name}.encoder_attn", decoder_layer.cross)
        _fill(checkpoint, f"{name}.encoder_attn_layer_norm", decoder_layer.cross_residual.norm)
        _feed_forward(checkpoint, name, decoder_layer.feed_forward)
        _fill(checkpoint, f"{name}.final_layer_norm", decoder_layer.feed_forward_residual.norm)
    for side, norm in (("encoder", network.encoder_norm), ("decoder", network.decoder_norm)):
        if isinstance(norm, nn.LayerNorm):
            _fill(checkpoint, f"model.{side}.layer_norm", norm)


def _attention(checkpoint: Checkpoint, name: str, attention: MultiHeadAttention) -> None:
    _fill(checkpoint, f"{name}.q_proj", attention.query)
    _fill(checkpoint, f"{name}.k_proj", attention.key)
    _fill(checkpoint, f"{name}.v_proj", attention.value)
    _fill(checkpoint, f"{name}.out_proj", attention.output)


def _feed_forward(checkpoint: Checkpoint, name: str, feed_forward: FeedForward) -> None:
    _fill(checkpoint, f"{name}.fc1", feed_forward.inner)
    _fill(checkpoint, f"{name}.fc2", feed_forward.outer)


def _fill(checkpoint: Checkpoint, name: str, module: nn.Linear | nn.LayerNorm) -> None:
    for part, parameter in module.named_parameters():
        parameter.copy_(checkpoint.take(f"{name}.{part}", *parameter.shape))
