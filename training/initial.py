"""What a run starts from: the weights of another, brought over to the vocabulary of this one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from models.bundle.tokenizer import Tokenizer
from models.transformer.config import TransformerConfig
from models.transformer.transformer import Transformer
from training import checkpoint
from training.loop.resuming import vocabulary_of
from training.recipe import InvalidRecipe, Recipe
from training.run_directory import RunDirectory

_OF_TRAINING = (
    "residual_dropout",
    "attention_dropout",
    "feed_forward_dropout",
    "embedding_dropout",
)
"""What may differ between two networks that the same weights fit."""

_OF_VOCABULARY = ("source_vocabulary", "target_vocabulary")

_OF_SOURCE_PIECES = ("source_embedding.tokens.weight",)
_OF_TARGET_PIECES = ("target_embedding.tokens.weight", "generator.weight", "generator.bias")
"""Parameters with a row for every piece."""


def start_from(recipe: Recipe, run: RunDirectory, network: Transformer) -> None:
    """Give ``network`` the averaged weights of the run that the recipe starts from.

    If the run has a vocabulary of its own, what belongs to a piece is brought over by
    ``rows_for``. Raises ``InvalidRecipe`` if there are no weights, or they are of another network,
    or of another vocabulary than their run has.
    """
    assert recipe.initial is not None
    initial = RunDirectory(run.path.parent / recipe.initial)
    if not initial.averaged.exists():
        raise InvalidRecipe(
            f"recipe {recipe.name!r} starts from the run {recipe.initial!r}, and "
            f"{initial.averaged} does not exist; run `python -m training run {recipe.initial}` "
            "first"
        )
    document = checkpoint.load(initial.averaged)
    pieces = vocabulary_of(initial)
    if document.get("vocabulary") != pieces:
        raise InvalidRecipe(
            f"{initial.path} was prepared with another vocabulary than it had been trained with; "
            f"run `python -m training run {recipe.initial}` again before {recipe.name!r} starts "
            "from it"
        )
    same_pieces = pieces == vocabulary_of(run)
    _require_same_network(recipe, network.config, document["config"], same_pieces)
    weights = document["network"]
    if not same_pieces:
        weights = with_pieces_of(run, initial, weights)
    network.load_state_dict(weights)


def with_pieces_of(
    run: RunDirectory, initial: RunDirectory, weights: dict[str, Tensor]
) -> dict[str, Tensor]:
    """The weights of a network of run ``initial``, for the vocabularies of ``run``."""
    old, new = initial.tokenizers(), run.tokenizers()
    source = rows_for(new.source, old.source)
    target = rows_for(new.target, old.target)
    return weights | {
        name: _means(weights[name], rows)
        for names, rows in ((_OF_SOURCE_PIECES, source), (_OF_TARGET_PIECES, target))
        for name in names
        if name in weights
    }


def rows_for(new: Tokenizer, old: Tokenizer) -> list[list[int]]:
    """For each piece of ``new`` the ids of ``old`` whose rows it begins as the mean of.

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
    """Into the longest known pieces from left to right."""
    found, start = [], 0
    while start < len(piece):
        ends = range(min(len(piece), start + longest), start, -1)
        end = next((end for end in ends if piece[start:end] in ids), start + 1)
        found.append(ids.get(piece[start:end], unknown))
        start = end
    return found


def _means(weight_VW: Tensor, rows: list[list[int]]) -> Tensor:
    """Also of a bias, which has one number for each piece."""
    return torch.stack([weight_VW[ids].mean(0) for ids in rows])


def _require_same_network(
    recipe: Recipe, config: TransformerConfig, saved: dict[str, Any], same_pieces: bool
) -> None:
    found = TransformerConfig(**saved)
    may_differ = _OF_TRAINING if same_pieces else (*_OF_TRAINING, *_OF_VOCABULARY)
    different = [
        name
        for name in found.__slots__
        if name not in may_differ and getattr(found, name) != getattr(config, name)
    ]
    if different:
        raise InvalidRecipe(
            f"recipe {recipe.name!r} starts from the run {recipe.initial!r}, whose network has "
            f"another {' and another '.join(different)}; give it the same, dropout excepted"
        )
