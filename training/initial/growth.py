"""Function-preserving growth of a network: more width, heads, feed-forward units and layers.

After Net2Net (Chen et al., 2016) and bert2BERT (Chen et al., 2022), for networks that normalise
before each sub-layer.

Each additional dimension of the residual stream holds the mean of the old dimensions. The mean of
the stream then stays the same, and its variance shrinks by the ratio of the old width to the new
width, which the gains of the norms make up for. Every norm makes zeros of the additional
dimensions, so that the matrices that read them may have random columns there. Additional heads and
feed-forward units begin with random inputs and with outputs of zero. An additional layer is a copy
of the layer below, with sub-layers that write zeros. Random values are those of a fresh network.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from torch import Tensor

from models.transformer.config import TransformerConfig
from models.transformer.layers import sinusoids
from models.transformer.transformer import Transformer

_GROWING = ("encoder_layers", "decoder_layers", "width", "heads", "feed_forward")
GROWN = (*_GROWING, "positions", "first_position")
"""Fields of the configuration in which a grown network may differ."""

_WRITING = ("output", "outer")
"""Linear layers that write the residual stream."""
_LAYER = re.compile(r"(encoder|decoder)\.(\d+)\.(.+)")


def obstacles(old: TransformerConfig, new: TransformerConfig) -> Iterator[str]:
    """The reasons, as clauses, for which ``old`` cannot grow to ``new``."""
    for name in _GROWING:
        before, after = getattr(old, name), getattr(new, name)
        if after < before:
            yield f"its {name} is {before}, more than {after}"
    if new.norm != "before" or old.norm != "before":
        yield "only a network with norm 'before' can grow"
    if new.head_width != old.head_width:
        yield f"its heads are {old.head_width} wide, not {new.head_width}"
    kept = (new.positions, new.first_position) == (old.positions, old.first_position)
    if new.positions != "learned" and not (kept and new.width == old.width):
        yield "its sinusoids would be others in the new network, whose positions must be 'learned'"


def grown(
    weights: dict[str, Tensor], old: TransformerConfig, fresh: Transformer
) -> dict[str, Tensor]:
    """State dict of ``fresh`` that computes what ``weights`` compute in a network of ``old``.

    ``obstacles`` must be none. The vocabularies are those of ``fresh``.
    """
    new = fresh.config
    if new.positions == "learned" and old.positions != "learned":
        table = sinusoids(old.max_length, old.width, old.positions, old.first_position)
        sides = ("source_embedding.positions", "target_embedding.positions")
        weights = weights | dict.fromkeys(sides, table)
    state = {}
    for name, tensor in fresh.state_dict().items():
        origin, copied = _origin(name, old, new)
        state[name] = _extended(name, weights[origin], tensor, old, new)
        if copied and _part(name) in _WRITING:
            state[name].zero_()
    if new.tying != "none":
        state["generator.weight"] = state["target_embedding.tokens.weight"]
    return state


def _origin(name: str, old: TransformerConfig, new: TransformerConfig) -> tuple[str, bool]:
    """The old parameter for a new one, and whether a lower layer has it already.

    Additional layers are spread evenly.
    """
    found = _LAYER.fullmatch(name)
    if found is None:
        return name, False
    stack, layer, rest = found[1], int(found[2]), found[3]
    before, after = (getattr(each, f"{stack}_layers") for each in (old, new))
    origin = layer * before // after
    copied = layer > 0 and (layer - 1) * before // after == origin
    return f"{stack}.{origin}.{rest}", copied


def _part(name: str) -> str:
    return name.split(".")[-2]


def _extended(
    name: str, found: Tensor, fresh: Tensor, old: TransformerConfig, new: TransformerConfig
) -> Tensor:
    """The parameter ``found`` in the larger shape of ``fresh``."""
    extended = fresh.clone()
    kept = tuple(slice(size) for size in found.shape)
    part, width = _part(name), old.width
    shrink = math.sqrt(old.width / new.width)
    if part in _WRITING:
        extended.zero_()
        extended[kept] = found
        extended[width:, *kept[1:]] = found.mean(dim=0)
    elif part == "tokens" or name.endswith("positions"):
        extended[:, :width] = found
        extended[:, width:] = found.mean(dim=1, keepdim=True)
        if part == "tokens" and new.scaled_embeddings:
            extended *= shrink
    elif part.endswith("norm"):
        extended[kept] = found * shrink if name.endswith("weight") else found
        # The projection reads the embeddings, which are smaller.
        if part == "decoder_norm" and new.tying != "none" and new.scaled_embeddings:
            extended[kept] /= shrink
    else:
        extended[kept] = found
    return extended
