"""Recipes with a deep encoder and a shallow decoder (Kasai et al., 2021).

The decoder runs once per token, the encoder once per sentence, so moving layers to the encoder
costs little quality and saves much time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from training.recipe import Recipe
from training.recipes.multi30k import multi30k_de_en
from training.recipes.paper import paper_base_en_de

PAPER = "4.5 million pairs, on a large GPU"
MULTI30K = "two to four hours on two cores"


def _moved(
    before: Callable[[], Recipe], name: str, encoder_layers: int, decoder_layers: int, effort: str
) -> Recipe:
    recipe = before()
    network = replace(
        recipe.network,
        encoder_layers=encoder_layers,
        decoder_layers=decoder_layers,
        # Post-norm networks of twelve layers do not train without further measures.
        norm="before" if encoder_layers > 6 else recipe.network.norm,
    )
    return replace(recipe, name=name, network=network, effort=effort)


# One layer more than the paper's base model, with about as many parameters.
paper_12_1 = partial(_moved, paper_base_en_de, "paper-12-1-en-de", 12, 1, PAPER)
paper_6_2 = partial(_moved, paper_base_en_de, "paper-6-2-en-de", 6, 2, PAPER)
multi30k_12_1 = partial(_moved, multi30k_de_en, "multi30k-de-en-12-1", 12, 1, MULTI30K)
multi30k_6_2 = partial(_moved, multi30k_de_en, "multi30k-de-en-6-2", 6, 2, MULTI30K)
