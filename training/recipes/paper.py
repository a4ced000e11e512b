"""Recipes of "Attention Is All You Need" (Vaswani et al., 2017): base and big, two corpora.

The paper speaks of "about 37,000" shared pieces for English–German. With exactly so many, the
networks have 63.1 and 214.2 million parameters, where table 3 has 65 and 213. The 38,400 used here
give 63.8 and 215.7, both within two per cent of the table. English–French has 32,000 pieces. The
paper does not say whether both languages share them; here each language has as many.

Checkpoints are about as frequent as the paper's, every ten minutes on its machine: 1,500 steps of
base at 0.4 seconds each, 600 of big at one second (section 5.2). Scores are divided by
((5 + length) / 6)^0.6 (section 6.1). The paper does not clip gradients; the maximum norm here is
large enough to affect diverging runs only.
"""

from __future__ import annotations

from dataclasses import replace

from training.recipe import Budget, Corpus, Data, Network, Optimisation, Recipe, Vocabulary

LICENCE = "research (shared task of WMT 2014)"
ORIGIN = (
    "part of the training data of the translation task of WMT 2014, on the page of that shared "
    "task at statmt.org; unpacked, one sentence per line"
)
NEVER = 1000.0
"""A gradient norm that is hardly ever reached."""

EN_DE = ("europarl-v7.de-en", "commoncrawl.de-en", "news-commentary-v9.de-en")
EN_FR = (
    "europarl-v7.fr-en",
    "commoncrawl.fr-en",
    "news-commentary-v9.fr-en",
    "undoc.2000.fr-en",
    "giga-fren.release2.fixed",
)


def paper_base_en_de() -> Recipe:
    """The paper took 12 hours on 8 P100, 4.6 GPU days."""
    return Recipe(
        name="paper-base-en-de",
        data=Data(
            source="en",
            target="de",
            train=wmt14(EN_DE),
            valid=news("wmt-news/valid"),
            test=news("wmt-news/test"),
            max_length=250,
        ),
        vocabulary=Vocabulary(size=38_400, kind="bpe", character_coverage=0.9999),
        network=Network(
            encoder_layers=6,
            decoder_layers=6,
            width=512,
            heads=8,
            feed_forward=2048,
            norm="after",
            tying="all",
            residual_dropout=0.1,
            embedding_dropout=0.1,
            max_length=512,
        ),
        optimisation=Optimisation(
            tokens_per_batch=25_000,
            schedule="noam",
            warmup=4_000,
            clip_norm=NEVER,
            label_smoothing=0.1,
        ),
        budget=Budget(steps=100_000, validate_every=3_000, save_every=1_500, keep_checkpoints=5),
        average=5,
        decoding={"beam_size": 4, "length_penalty": 0.6, "length_normalisation": "gnmt"},
        effort="4.5 million pairs; the paper took 12 hours on 8 P100",
    )


def paper_big_en_de() -> Recipe:
    base = paper_base_en_de()
    return replace(
        base,
        name="paper-big-en-de",
        network=replace(
            base.network,
            width=1024,
            heads=16,
            feed_forward=4096,
            residual_dropout=0.3,
            embedding_dropout=0.3,
        ),
        budget=Budget(steps=300_000, validate_every=3_000, save_every=600, keep_checkpoints=20),
        average=20,
        effort="4.5 million pairs; the paper took 3.5 days on 8 P100",
    )


def paper_base_en_fr() -> Recipe:
    return _en_fr(paper_base_en_de(), "paper-base-en-fr")


def paper_big_en_fr() -> Recipe:
    """The big network with dropout 0.1 instead of 0.3 (section 6.1)."""
    big = paper_big_en_de()
    network = replace(big.network, residual_dropout=0.1, embedding_dropout=0.1)
    return _en_fr(replace(big, network=network), "paper-big-en-fr")


def _en_fr(recipe: Recipe, name: str) -> Recipe:
    return replace(
        recipe,
        name=name,
        data=replace(
            recipe.data,
            target="fr",
            train=wmt14(EN_FR),
            valid=news("wmt-news-en-fr/newstest2013"),
            test=news("wmt-news-en-fr/newstest2014"),
        ),
        vocabulary=replace(recipe.vocabulary, size=32_000, shared=False),
        network=replace(recipe.network, tying="decoder"),
        effort=recipe.effort.replace("4.5 million", "36 million"),
    )


def wmt14(names: tuple[str, ...]) -> tuple[Corpus, ...]:
    """Corpora of the WMT shared task, to be downloaded by each user."""
    return tuple(Corpus(name=f"wmt14/{name}", licence=LICENCE, origin=ORIGIN) for name in names)


def news(name: str) -> Corpus:
    """A test set of the WMT shared tasks."""
    return Corpus(name=name, licence="research (test sets of WMT)")


def with_dropout(recipe: Recipe, rate: float) -> Recipe:
    """The paper has one rate for the output of each sub-layer and for the embedded sentence."""
    network = replace(recipe.network, residual_dropout=rate, embedding_dropout=rate)
    return replace(recipe, network=network)
