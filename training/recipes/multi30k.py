"""Image captions, German and English: a network small enough for two cores and two hours."""

from __future__ import annotations

from dataclasses import replace

from training.recipe import Budget, Corpus, Data, Network, Optimisation, Recipe, Vocabulary

LICENCE = "research and education, non-commercial (Flickr30K)"


def multi30k_de_en() -> Recipe:
    return Recipe(
        name="multi30k-de-en",
        data=Data(
            source="de",
            target="en",
            train=(Corpus(name="multi30k/train", licence=LICENCE),),
            valid=Corpus(name="multi30k/val", licence=LICENCE),
            test=Corpus(name="multi30k/test_2016_flickr", licence=LICENCE),
            max_length=96,
        ),
        vocabulary=Vocabulary(size=5120),
        network=Network(
            encoder_layers=3,
            decoder_layers=3,
            width=256,
            heads=4,
            feed_forward=512,
            residual_dropout=0.2,
            embedding_dropout=0.1,
            max_length=192,
        ),
        optimisation=Optimisation(
            tokens_per_batch=2000,
            schedule="linear",
            peak_learning_rate=1.5e-3,
            warmup=1000,
        ),
        budget=Budget(steps=7_200, validate_every=230, keep_checkpoints=8, patience=12),
        average=4,
    )


def multi30k_en_de() -> Recipe:
    forward = multi30k_de_en()
    return replace(
        forward,
        name="multi30k-en-de",
        data=replace(forward.data, source="en", target="de"),
        # German has more ways to end a word, and takes longer to learn to write.
        budget=replace(forward.budget, steps=8_000),
    )
