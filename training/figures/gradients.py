"""Figure of each layer's gradient norm before the first step, with pre-norm and post-norm.

After Xiong et al., "On Layer Normalization in the Transformer Architecture" (2020): with post-norm,
layers near the loss have so much larger gradients that a large first step ruins them. Warm-up
avoids such steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import nn

from models.transformer.config import TransformerConfig
from models.transformer.transformer import build
from training.figures.style import COLOURS, DASHES, WIDTH, magnitudes, rows_ruled, styled
from training.loop.objective import smoothed_loss

Norm = Literal["before", "after"]


@dataclass(frozen=True, slots=True)
class LayerGradients:
    """Gradient norm of each layer's weights, from the bottom up."""

    encoder: tuple[float, ...]
    decoder: tuple[float, ...]


def measure(
    config: TransformerConfig, norm: Norm, *, sentences: int = 16, length: int = 24
) -> LayerGradients:
    """The gradients of a fresh network for one batch of random tokens, without dropout."""
    network = build(replace(config, norm=norm), seed=1).eval()
    generator = torch.Generator().manual_seed(1)
    first = config.pad_id + 1
    source_BS, target_BT = (
        torch.randint(first, vocabulary, (sentences, length), generator=generator)
        for vocabulary in (config.source_vocabulary, config.target_vocabulary)
    )
    logits_BTV = network(source_BS, target_BT[:, :-1])
    wanted_N = target_BT[:, 1:].flatten()
    loss = smoothed_loss(logits_BTV.flatten(0, 1), wanted_N, 0.1, config.pad_id) / len(wanted_N)
    loss.backward()  # type: ignore[no-untyped-call]
    return LayerGradients(_norms(network.encoder_layers), _norms(network.decoder_layers))


@styled
def gradients(measured: Mapping[Norm, LayerGradients], network: str) -> Figure:
    """Both norm positions in the same network, which ``network`` names."""
    figure = Figure(figsize=(WIDTH, 4.0))
    figure.suptitle(f"Gradients before the first step: {network}", x=0.01, ha="left")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, stack in zip(panels, ("encoder", "decoder"), strict=True):
        for i, (norm, layers) in enumerate(measured.items()):
            values: Sequence[float] = getattr(layers, stack)
            axes.plot(
                range(1, len(values) + 1),
                values,
                "os"[i],
                color=COLOURS[i],
                linestyle=DASHES[i],
                markersize=5,
                label=f"norm {norm} each sub-layer",
            )
        magnitudes(axes)
        axes.set(title=stack.capitalize(), xlabel="layer, from the bottom")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        rows_ruled(axes)
    panels[0].set_ylabel("norm of the layer's gradient")
    panels[0].legend()
    return figure


def _norms(layers: Iterable[nn.Module]) -> tuple[float, ...]:
    return tuple(
        float(torch.stack([p.grad.norm() for p in layer.parameters() if p.grad is not None]).norm())
        for layer in layers
    )
