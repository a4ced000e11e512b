"""Initial weights of a run: those of another run or of a bundle, for the vocabulary of the run."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import Tensor

from models.bundle.tokenizer import Tokenizer, Tokenizers
from models.transformer.config import TransformerConfig
from models.transformer.transformer import Transformer
from training.initial.growth import GROWN, grown, obstacles
from training.initial.pretrained import find_pretrained
from training.loop.resuming import vocabulary_of
from training.recipe import InvalidRecipe, Recipe
from training.run_directory import RunDirectory

_OF_TRAINING = (
    "residual_dropout",
    "attention_dropout",
    "feed_forward_dropout",
    "embedding_dropout",
)
"""Settings that may differ between two networks that the same weights fit."""

_OF_VOCABULARY = ("source_vocabulary", "target_vocabulary")

_OF_SOURCE_PIECES = ("source_embedding.tokens.weight",)
_OF_TARGET_PIECES = ("target_embedding.tokens.weight", "generator.weight", "generator.bias")
"""Parameters with a row for every piece."""


def start_from(recipe: Recipe, run: RunDirectory, network: Transformer, bundles: Path) -> None:
    """Load the weights of the run or bundle that the recipe starts from into ``network``.

    Raises as ``initial_weights``.
    """
    network.load_state_dict(initial_weights(recipe, run, network, bundles))


def initial_weights(
    recipe: Recipe, run: RunDirectory, network: Transformer, bundles: Path
) -> dict[str, Tensor]:
    """The state dict of the run or bundle that the recipe starts from, for ``network``.

    ``with_pieces_of`` adapts weights with another vocabulary, ``with_decoder_of`` those with
    another decoder (SSRU or self-attention), ``grown`` those of a smaller network if the recipe
    grows it. ``bundles`` is the directory in which the recipe may name a bundle.
    Raises ``InvalidRecipe`` if there are no weights, if they are of another network, or if ``run``
    was prepared for another run or bundle.
    """
    pretrained = find_pretrained(recipe, run, bundles)
    report = json.loads(run.report.read_text(encoding="utf-8"))
    if report.get("initial") != pretrained.origin:
        raise InvalidRecipe(
            f"{run.path} was prepared before recipe {recipe.name!r} started from "
            f"{pretrained.label}, or from another version of it than {pretrained.path}; run "
            "`python -m training prepare` again"
        )
    config, weights = pretrained.network()
    same_pieces = vocabulary_of(RunDirectory(pretrained.path)) == vocabulary_of(run)
    _require_same_network(recipe, network.config, config, same_pieces, pretrained.label)
    if not same_pieces:
        weights = with_pieces_of(run.tokenizers(), pretrained.tokenizers(), weights)
    if recipe.grow:
        weights = grown(weights, config, network)
    if config.decoder != network.config.decoder:
        weights = with_decoder_of(network, weights)
    return weights


def with_decoder_of(network: Transformer, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """``weights`` but for the first sub-layers of the decoder, which are those of ``network``."""
    own = network.state_dict()
    return {name: weights.get(name, parameter) for name, parameter in own.items()}


def with_pieces_of(
    new: Tokenizers, old: Tokenizers, weights: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Weights of a network with the vocabularies ``old``, for the vocabularies ``new``."""
    source = rows_for(new.source, old.source)
    target = rows_for(new.target, old.target)
    return weights | {
        name: _means(weights[name], rows)
        for names, rows in ((_OF_SOURCE_PIECES, source), (_OF_TARGET_PIECES, target))
        for name in names
        if name in weights
    }


def rows_for(new: Tokenizer, old: Tokenizer) -> list[list[int]]:
    """Ids in ``old`` whose rows have the mean that initialises the row, for each piece of ``new``.

    That is the same piece, or those that it is made of, the longest first: fast vocabulary
    transfer (Gee et al., 2022).
    """
    ids = {piece: id for id, piece in enumerate(old.pieces(range(old.vocabulary_size)))}
    longest = max(map(len, ids))
    return [
        _cut(piece, ids, longest, old.special_ids.unk)
        for piece in new.pieces(range(new.vocabulary_size))
    ]


def _cut(piece: str, ids: dict[str, int], longest: int, unknown: int) -> list[int]:
    """Divide a piece into the longest known pieces, from left to right."""
    found, start = [], 0
    while start < len(piece):
        ends = range(min(len(piece), start + longest), start, -1)
        end = next((end for end in ends if piece[start:end] in ids), start + 1)
        found.append(ids.get(piece[start:end], unknown))
        start = end
    return found


def _means(weight_VW: Tensor, rows: list[list[int]]) -> Tensor:
    """Mean of the rows of each new piece. Also works for 1-D biases."""
    return torch.stack([weight_VW[ids].mean(0) for ids in rows])


def _require_same_network(
    recipe: Recipe,
    config: TransformerConfig,
    found: TransformerConfig,
    same_pieces: bool,
    label: str,
) -> None:
    may_differ: tuple[str, ...] = _OF_TRAINING if same_pieces else (*_OF_TRAINING, *_OF_VOCABULARY)
    if not recipe.grow:
        may_differ += ("decoder",)
    else:
        may_differ += GROWN
        if reasons := "; ".join(obstacles(found, config)):
            raise InvalidRecipe(f"recipe {recipe.name!r} cannot grow {label}: {reasons}")
    different = [
        f"{name} ({getattr(found, name)!r}, not {getattr(config, name)!r})"
        for name in found.__slots__
        if name not in may_differ and getattr(found, name) != getattr(config, name)
    ]
    if different:
        raise InvalidRecipe(
            f"recipe {recipe.name!r} starts from {label}, whose network has "
            f"another {' and another '.join(different)}; give it the same, but for dropout and "
            "decoder"
        )
