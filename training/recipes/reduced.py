"""Shrinks any recipe to test size: every choice kept, every number small."""

from __future__ import annotations

from dataclasses import replace

from training.recipe import Corpus, Data, Recipe

PAIRS = 100
"""Training pairs of a generated corpus."""
HELD_OUT = 6
"""Validation and test pairs of a generated corpus."""
PIECES = 150
LOSSLESS_PIECES = 600
"""Enough for the bytes and the required characters."""
LONGEST = 60
"""Maximum pieces of a sentence; an untrained network decodes up to the limit."""


def reduced(recipe: Recipe, corpus: str | None = None) -> Recipe:
    """Two steps of a thin network on a small vocabulary; ``corpus`` replaces every corpus on disk.

    The run of ``initial`` must have been reduced, too.
    """
    network, budget, optimisation = recipe.network, recipe.budget, recipe.optimisation
    data = recipe.data
    if corpus is not None:
        data = _on(data, corpus)
    most_pieces = LOSSLESS_PIECES if recipe.vocabulary.lossless else PIECES
    trained = tuple(_fewer(each, PAIRS) for each in data.train)
    return replace(
        recipe,
        name=f"{recipe.name}-reduced",
        data=replace(
            data,
            train=trained,
            valid=_fewer(data.valid, HELD_OUT),
            test=_fewer(data.test, HELD_OUT),
            max_length=LONGEST,
        ),
        vocabulary=replace(recipe.vocabulary, size=min(recipe.vocabulary.size, most_pieces)),
        network=replace(
            network,
            encoder_layers=min(network.encoder_layers, 2),
            decoder_layers=min(network.decoder_layers, 2),
            width=16,
            heads=min(network.heads, 2),
            feed_forward=32,
            max_length=LONGEST + 1,
        ),
        optimisation=replace(
            optimisation,
            tokens_per_batch=600,
            accumulate=min(optimisation.accumulate, 2),
            warmup=min(optimisation.warmup, 2),
            decay=min(optimisation.decay, 1),
        ),
        budget=replace(
            budget, steps=2, validate_every=2, save_every=1, keep_checkpoints=2, patience=None
        ),
        average=min(recipe.average, 2),
        initial=None if recipe.initial is None else f"{recipe.initial}-reduced",
        bundle=None,
    )


def _fewer(corpus: Corpus, pairs: int) -> Corpus:
    return replace(corpus, pairs=min(corpus.pairs, pairs))


def _on(data: Data, name: str) -> Data:
    """Replace the corpora by the one named ``name``, once each."""
    trained = {each.label: each for each in (_named(each, name) for each in data.train)}
    return replace(
        data,
        train=tuple(trained.values()),
        valid=_named(data.valid, name),
        test=_named(data.test, name),
        more_valid=tuple(_named(each, name) for each in data.more_valid),
        more_test=tuple(_named(each, name) for each in data.more_test),
        # Training and test text are the same corpus of one domain.
        held_out=(),
        largest_domain=1.0,
    )


def _named(corpus: Corpus, name: str) -> Corpus:
    return corpus if corpus.generator is not None else replace(corpus, name=name, hold_out=None)
