"""Toy-problem recipes: ten digits reversed, every second occurrence an X; and ten digits copied.

Copying is as in "The Annotated Transformer" (Rush, 2018). Training takes minutes on two cores.
"""

from __future__ import annotations

from training.recipe import Budget, Corpus, Data, Network, Optimisation, Recipe, Vocabulary

LICENCE = "CC0-1.0 (generated)"

DIGITS_ARE_WORDS: dict[str, bool | int | float | str] = {
    "copy_without_letters": False,
    "keep_figures": False,
}
"""Switches off copying and keeping digits in the service, which these networks translate."""


def reverse() -> Recipe:
    return Recipe(
        name="reverse",
        data=Data(
            source="x-digits",
            target="x-reversed",
            train=(
                Corpus(
                    name="train", licence=LICENCE, generator="reverse-any-length", pairs=100_000
                ),
            ),
            valid=Corpus(name="valid", licence=LICENCE, generator="reverse", pairs=500),
            test=Corpus(name="test", licence=LICENCE, generator="reverse", pairs=500),
            max_length=63,
        ),
        vocabulary=Vocabulary(size=15, kind="word"),
        network=Network(
            encoder_layers=2,
            decoder_layers=2,
            width=64,
            heads=4,
            feed_forward=256,
            norm="before",
            residual_dropout=0.0,
            embedding_dropout=0.0,
            max_length=64,
        ),
        optimisation=Optimisation(
            tokens_per_batch=1408,
            schedule="cosine",
            peak_learning_rate=2e-3,
            warmup=200,
            optimiser="muon",
            label_smoothing=0.0,
            precision="fp32",
        ),
        budget=Budget(steps=2500, validate_every=500, keep_checkpoints=1),
        average=1,
        decoding=DIGITS_ARE_WORDS,
        effort="two minutes on two cores",
    )


def copy() -> Recipe:
    """Two layers of the base model's width, 20 epochs of 20 batches of 80 sequences."""
    return Recipe(
        name="copy",
        data=Data(
            source="x-digits",
            target="x-copied",
            train=(Corpus(name="train", licence=LICENCE, generator="copy", pairs=32_000),),
            valid=Corpus(name="valid", licence=LICENCE, generator="copy", pairs=400),
            test=Corpus(name="test", licence=LICENCE, generator="copy", pairs=400),
            max_length=63,
        ),
        vocabulary=Vocabulary(size=14, kind="word"),
        network=Network(
            encoder_layers=2,
            decoder_layers=2,
            width=512,
            heads=8,
            feed_forward=2048,
            norm="before",
            tying="none",
            residual_dropout=0.1,
            attention_dropout=0.1,
            feed_forward_dropout=0.1,
            embedding_dropout=0.1,
            max_length=64,
        ),
        optimisation=Optimisation(
            # 80 rows of ten digits and an eos.
            tokens_per_batch=880,
            schedule="noam",
            warmup=400,
            label_smoothing=0.0,
            precision="fp32",
        ),
        budget=Budget(steps=400, validate_every=100, keep_checkpoints=1),
        average=1,
        decoding=DIGITS_ARE_WORDS,
        effort="four minutes on two cores",
    )
