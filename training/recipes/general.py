"""German and English beyond captions.

``general-de-en`` learns from everything at hand, ``general-free-de-en`` from what is under free
licences only, and ``general-large-de-en`` is a teacher for the two; all go both ways in one
network. ``everyday-de-en`` and ``everyday-en-de`` are what two cores can learn in some hours:
everyday sentences and captions.

What is published must be small: as int8 a parameter is a byte. Where a GPU trains, six layers
encode and two decode, since a decoder's layers are what a token costs.
"""

from __future__ import annotations

from dataclasses import replace

from training.recipe import Budget, Corpus, Data, Network, Optimisation, Recipe, Vocabulary
from training.recipes.multi30k import LICENCE as MULTI30K
from training.recipes.multi30k import fine_tuned, multi30k_augmented

TATOEBA = Corpus(name="tatoeba/train", licence="CC BY 2.0 FR")
CAPTIONS = Corpus(name="multi30k/train", licence=MULTI30K)
CHAT = Corpus(name="bcontrast/train", licence="CC BY-SA 4.0")

FREE = (
    TATOEBA,
    Corpus(name="ms-docs/train", licence="CC BY 4.0, part MIT"),
    Corpus(
        name="foss-docs/train",
        licence="free licences by origin: CC BY, CC BY-SA, GFDL, GPL, AGPL, MPL, Apache-2.0, MIT",
    ),
    Corpus(name="debian-web/train", licence="MIT or GPL-2+, older parts OPL"),
    Corpus(name="php-manual/train", licence="CC BY 3.0 or later"),
    replace(CHAT, repeat=2),
    Corpus(name="mlqe-pe/train", licence="CC0-1.0", repeat=3),
)
OTHERS = (
    CAPTIONS,
    Corpus(name="wmt-submissions/train-submitted", licence="research (unstated in the mirror)"),
    Corpus(name="wmt-news/train", licence="research (unstated in the mirror)", repeat=2),
    Corpus(name="europarl-20k/train", licence="unstated"),
    Corpus(name="opennmt-wmt-sample/train", licence="unstated"),
)


def general_de_en() -> Recipe:
    return Recipe(
        name="general-de-en",
        data=Data(
            source="de",
            target="en",
            train=(*FREE, *OTHERS),
            valid=Corpus(name="wmt-news/valid", licence="research (test sets of WMT)"),
            test=Corpus(name="wmt-news/test", licence="research (test sets of WMT)"),
            bidirectional=True,
            max_length=160,
        ),
        vocabulary=Vocabulary(size=12_000, character_coverage=0.9998),
        network=Network(
            encoder_layers=6,
            decoder_layers=2,
            width=320,
            heads=5,
            feed_forward=1024,
            norm="before",
            residual_dropout=0.1,
            attention_dropout=0.1,
            embedding_dropout=0.1,
            max_length=256,
        ),
        optimisation=Optimisation(
            tokens_per_batch=25_000,
            schedule="cosine",
            peak_learning_rate=1.5e-3,
            warmup=2_000,
        ),
        budget=Budget(steps=60_000, validate_every=2_000, save_every=500, keep_checkpoints=10),
        average=10,
        effort="660 thousand pairs, on a GPU; goes on after whatever stopped it",
    )


def general_free_de_en() -> Recipe:
    everything = general_de_en()
    return replace(
        everything,
        name="general-free-de-en",
        data=replace(everything.data, train=FREE),
        budget=replace(everything.budget, steps=40_000),
        effort="360 thousand pairs, on a GPU; goes on after whatever stopped it",
    )


def general_large_de_en() -> Recipe:
    """Too large to be published with the code; ``distill general-de-en --teacher`` it."""
    small = general_de_en()
    return replace(
        small,
        name="general-large-de-en",
        vocabulary=replace(small.vocabulary, size=16_000),
        network=replace(
            small.network,
            encoder_layers=6,
            decoder_layers=3,
            width=512,
            heads=8,
            feed_forward=2048,
            residual_dropout=0.3,
            embedding_dropout=0.2,
        ),
        optimisation=replace(small.optimisation, peak_learning_rate=1e-3, warmup=4_000),
    )


def everyday(source: str, target: str) -> Recipe:
    """A network of captions goes on, with a vocabulary of its own, to what people say every day.

    Two further captions of each picture are translated back, so that captions stay what they were.
    """
    captions = multi30k_augmented(source, target)
    found = [corpus for corpus in captions.data.train if corpus.translated]
    return replace(
        captions,
        name=f"everyday-{source}-{target}",
        bundle=None,
        data=replace(
            captions.data,
            train=(replace(TATOEBA, repeat=2), replace(CAPTIONS, repeat=2), CHAT, *found[:2]),
            valid=Corpus(name="tatoeba/valid", licence=TATOEBA.licence),
            test=Corpus(name="tatoeba/test", licence=TATOEBA.licence),
        ),
        vocabulary=Vocabulary(size=8_000, character_coverage=0.9998),
        network=replace(captions.network, residual_dropout=0.1),
        optimisation=replace(captions.optimisation, peak_learning_rate=1e-3),
        budget=Budget(steps=7_000, validate_every=500, keep_checkpoints=8),
        initial=captions.name,
        description="It translates short sentences of everyday talk, and captions of pictures. Of "
        "news, technical and literary text it has seen next to nothing, and translates it poorly: "
        "long sentences lose their thread, rare words and names are misspelt or made up.",
        effort=f"two hours on two cores, after the run {captions.name} and with the bundle "
        f"multi30k-{target}-{source} at hand",
    )


def everyday_fine_tuned(source: str, target: str) -> Recipe:
    """The end of it, where captions weigh as much as everyday sentences: they are longer."""
    fine = fine_tuned(everyday(source, target), steps=1_200)
    return replace(
        fine,
        data=replace(fine.data, train=(TATOEBA, replace(CAPTIONS, repeat=3), CHAT)),
        # They have been seen dozens of times by then.
        network=replace(fine.network, residual_dropout=0.15),
    )
