"""The variations of table 3 of "Attention Is All You Need", except row B.

Row B gives keys another size than values, but these heads share the width evenly. Row E learns
the positions; with 251 of them on each side the network has a quarter of a million parameters more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from training.recipe import Recipe
from training.recipes.paper import paper_base_en_de, with_dropout

_EFFORT = "4.5 million pairs, on a large GPU"


def learned_positions() -> Recipe:
    """Row E: learned positions."""
    base = paper_base_en_de()
    # Positions beyond those in training would never be learned.
    longest = base.data.max_length + 1
    return replace(
        base,
        name="paper-base-en-de-learned-positions",
        network=replace(base.network, positions="learned", max_length=longest),
        effort=_EFFORT,
    )


def _changed(suffix: str, **changes: Any) -> Recipe:
    base = paper_base_en_de()
    name = f"{base.name}-{suffix}"
    network = replace(base.network, **changes)
    return replace(base, name=name, network=network, effort=_EFFORT)


def _dropout(rate: float) -> Recipe:
    base = paper_base_en_de()
    return replace(with_dropout(base, rate), name=f"{base.name}-dropout-{rate:g}", effort=_EFFORT)


def _smoothing(rate: float) -> Recipe:
    base = paper_base_en_de()
    return replace(
        base,
        name=f"{base.name}-smoothing-{rate:g}",
        optimisation=replace(base.optimisation, label_smoothing=rate),
        effort=_EFFORT,
    )


TABLE_3: tuple[Callable[[], Recipe], ...] = (
    # A: the number of heads.
    partial(_changed, "1-head", heads=1),
    partial(_changed, "4-heads", heads=4),
    partial(_changed, "16-heads", heads=16),
    partial(_changed, "32-heads", heads=32),
    # C: the size.
    partial(_changed, "2-layers", encoder_layers=2, decoder_layers=2),
    partial(_changed, "4-layers", encoder_layers=4, decoder_layers=4),
    partial(_changed, "8-layers", encoder_layers=8, decoder_layers=8),
    partial(_changed, "width-256", width=256),
    partial(_changed, "width-1024", width=1024),
    partial(_changed, "feed-forward-1024", feed_forward=1024),
    partial(_changed, "feed-forward-4096", feed_forward=4096),
    # D: regularisation.
    partial(_dropout, 0.0),
    partial(_dropout, 0.2),
    partial(_smoothing, 0.0),
    partial(_smoothing, 0.2),
    learned_positions,
)
