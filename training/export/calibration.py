"""Activation ranges of linear layers' inputs, the calibration of static int8 quantisation.

Ranges are fixed once, from real sentences. So a product needs no pass over its input to find the
maximum, and the rounding of a sentence does not depend on its batch neighbours. Inputs are named
after their place in the network (``decoder.2.cross``). Matrices with the same input share a name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from models.transformer.transformer import Transformer
from training.data.batching import padded

Pair = tuple[Sequence[int], Sequence[int]]
"""Source ids ending with ``eos``, and decoder input ids: ``bos``, then target ids."""

Ranges = dict[str, float]
"""The largest absolute value of each input."""

BATCH = 16


def calibrate(network: Transformer, pairs: Sequence[Pair]) -> Ranges:
    """Ranges over teacher-forced passes. Raises ``ValueError`` without pairs."""
    if not pairs:
        raise ValueError("calibration needs at least one pair of sentences")
    ranges: Ranges = {}
    real = {"source": torch.empty(0), "target": torch.empty(0)}

    def watch(name: str, side: str) -> Callable[..., None]:
        def note(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor | None = None) -> None:
            values = inputs[0] if output is None else output
            # Padding positions do not affect any result.
            largest = float(values.abs().amax(-1)[real[side]].max())
            ranges[name] = max(ranges.get(name, 0.0), largest)

        return note

    handles = [
        module.register_forward_pre_hook(watch(name, side))
        for name, (module, side) in _readers(network).items()
    ]
    handles += [
        module.register_forward_hook(watch(name, side))
        for name, (module, side) in _producers(network).items()
    ]
    try:
        network.eval()
        with torch.inference_mode():
            for start in range(0, len(pairs), BATCH):
                batch = pairs[start : start + BATCH]
                source_BS = padded([torch.tensor(source).numpy() for source, _ in batch])
                target_BT = padded([torch.tensor(target).numpy() for _, target in batch])
                pad_id = network.config.pad_id
                real["source"], real["target"] = source_BS != pad_id, target_BT != pad_id
                network(source_BS, target_BT)
    finally:
        for handle in handles:
            handle.remove()
    return ranges


def _readers(network: Transformer) -> dict[str, tuple[nn.Module, str]]:
    """The module whose argument each input is, and the side whose positions the input has.

    Query, key and value of self-attention are projected together, without a call of the modules
    ``query``, ``key`` and ``value``. With the norm after the sub-layer, the residual connection
    has the same argument.
    """
    found: dict[str, tuple[nn.Module, str]] = {}
    after = network.config.norm == "after"
    for i, layer in enumerate(network.encoder_layers):
        name = f"encoder.{i}"
        if after:
            found[f"{name}.attention"] = (layer.attention_residual, "source")
        found[f"{name}.attention.output"] = (layer.attention.output, "source")
        found[f"{name}.feed_forward"] = (layer.feed_forward.inner, "source")
        found[f"{name}.feed_forward.outer"] = (layer.feed_forward.outer, "source")
    for i, decoder_layer in enumerate(network.decoder_layers):
        name = f"decoder.{i}"
        if after:
            found[f"{name}.attention"] = (decoder_layer.attention_residual, "target")
        found[f"{name}.attention.output"] = (decoder_layer.attention.output, "target")
        found[f"{name}.cross"] = (decoder_layer.cross.query, "target")
        found[f"{name}.cross.output"] = (decoder_layer.cross.output, "target")
        found[f"{name}.feed_forward"] = (decoder_layer.feed_forward.inner, "target")
        found[f"{name}.feed_forward.outer"] = (decoder_layer.feed_forward.outer, "target")
    found["generator"] = (network.generator, "target")
    return found


def _producers(network: Transformer) -> dict[str, tuple[nn.Module, str]]:
    """The module whose result an input is, where no module has it as its argument."""
    found: dict[str, tuple[nn.Module, str]] = {"memory": (network.encoder_norm, "source")}
    if network.config.norm == "before":
        for i, layer in enumerate(network.encoder_layers):
            found[f"encoder.{i}.attention"] = (layer.attention_residual.norm, "source")
        for i, decoder_layer in enumerate(network.decoder_layers):
            found[f"decoder.{i}.attention"] = (decoder_layer.attention_residual.norm, "target")
    return found
