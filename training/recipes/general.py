"""Recipes for general German–English text in both directions, and for everyday sentences.

``general-de-en`` uses all corpora, ``general-free-de-en`` those under free licences only.
``general-de-en-grown`` goes on from ``general-de-en-fine-tuned`` with a larger network,
``general-de-en-grown-fine-tuned`` from there; ``-refined`` and ``-letters`` end it: its bundle is
the default model. ``general-large-de-en`` is a teacher for all of them. ``everyday-de-en`` and
``everyday-en-de`` are for everyday sentences and captions.

Published networks are small: an int8 parameter is a byte. Six layers encode and two decode, because
the decoder runs once per token.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from training.recipe import (
    Augmentation,
    Budget,
    Corpus,
    Data,
    Network,
    Optimisation,
    Recipe,
    Vocabulary,
)
from training.recipes.multi30k import LICENCE as MULTI30K
from training.recipes.multi30k import fine_tuned, multi30k_augmented


def _corpus(name: str, licence: str, domain: str, **options: Any) -> Corpus:
    return Corpus(name=name, licence=licence, domain=domain, **options)


TATOEBA = _corpus("tatoeba/train", "CC BY 2.0 FR", "everyday")
CAPTIONS = _corpus("multi30k/train", MULTI30K, "captions")
CHAT = _corpus("bcontrast/train", "CC BY-SA 4.0", "dialogue")
WRITTEN = _corpus(
    "written/train", "CC0-1.0", "written for users", repeat=5, documents=True, hold_out=25
)
LETTERS = _corpus("letters/train", "CC0-1.0", "letters", repeat=10, hold_out=25)
FORMS = _corpus("letters/forms", "CC0-1.0", "letters", repeat=100)
"""Salutations, closings and the like, which other corpora lack; both come with the project."""
LEXICON = _corpus(
    "lexicon/train",
    "GPL-2+, Unicode v3, ODbL-1.0, LGPL-2.1+, MIT, ISC",
    "terms",
    # Two words a pair: more would make one sentence in five a single word.
    most=200_000,
)

FREE = (
    WRITTEN,
    replace(TATOEBA, repeat=2),
    _corpus("ding-sentences/train", "GPL-2+", "everyday", repeat=2),
    _corpus("ms-docs/train", "CC BY 4.0, part MIT", "business software", most=60_000),
    _corpus(
        "foss-docs/train",
        "free licences by origin: CC BY, CC BY-SA, GFDL, GPL, AGPL, MPL, Apache-2.0, MIT",
        "software",
        noisy=True,
    ),
    _corpus("debian-web/train", "MIT or GPL-2+, older parts OPL", "project news", noisy=True),
    _corpus("php-manual/train", "CC BY 3.0 or later", "web technology"),
    CHAT,
    _corpus("mlqe-pe/train", "CC0-1.0", "encyclopaedia", repeat=3),
    _corpus("covost2/train", "CC0-1.0", "encyclopaedia", repeat=2),
    _corpus(
        "eval-sets-human/train", "CC BY-SA 3.0 and 4.0, CDLA-Sharing", "encyclopaedia", repeat=3
    ),
    _corpus(
        "pawsx/train",
        "free for any purpose, credit to Google; Wikipedia's text CC BY-SA",
        "encyclopaedia",
        repeat=2,
    ),
    _corpus("manpages/train", "GPL-3+", "software", most=25_000),
    _corpus("adobe-workfront/train", "MIT", "business software", most=40_000),
    _corpus("mdn-docs/train", "CC BY-SA 2.5 or later", "web technology", most=20_000),
    _corpus("freecodecamp/train", "CC BY-SA 4.0", "web technology", noisy=True, most=20_000),
    _corpus("eforms/train", "CC BY 4.0", "law"),
    _corpus("cdt/train", "MIT, CC BY-SA 4.0", "news", documents=True),
    _corpus("games/train", "GPL-2+, GPL-3, CC BY-SA", "fiction", most=50_000),
    _corpus(
        "debian-descriptions/train",
        "GPL-2, originals under each package's free licence",
        "software",
        most=20_000,
    ),
    _corpus("libreoffice-help/train", "MPL-2.0", "business software", most=18_000),
    LEXICON,
)
OTHERS = (
    replace(CAPTIONS, repeat=2),
    _corpus(
        "wmt-submissions/train-submitted",
        "research (unstated in the mirror)",
        "news and other tests of WMT",
        noisy=True,
    ),
    _corpus(
        "wmt-news/train", "research (unstated in the mirror)", "news", repeat=3, documents=True
    ),
    _corpus(
        "wmt-general-20-22-23/train",
        "research (unstated in the mirrors)",
        "news",
        repeat=2,
        documents=True,
    ),
    _corpus("ted/train", "CC BY-NC-ND 4.0", "talks", repeat=2, documents=True),
    _corpus("captions-3b1b/train", "unstated", "talks", documents=True),
    _corpus("europarl-20k/train", "unstated", "parliament", repeat=2, documents=True),
    _corpus("opennmt-wmt-sample/train", "unstated", "web", noisy=True),
    _corpus("xnli/train", "CC BY-NC 4.0", "everyday", repeat=2),
    _corpus("wmt24-chat/train", "CC BY-NC 4.0", "dialogue"),
    _corpus("msctd/train", "MIT, of subtitles of third parties", "dialogue", noisy=True),
    _corpus(
        "xdailydialog/train",
        "Apache-2.0, of dialogues for non-commercial use",
        "dialogue",
        noisy=True,
    ),
    _corpus(
        "aligned-classics/train",
        "MIT, some translators unnamed",
        "fiction",
        repeat=2,
        documents=True,
    ),
    _corpus("stsb-deepl/train", "mixed, mostly CC BY-SA 4.0", "headlines"),
    _corpus("astronomy-school/train", "GPL-2+, AGPL-3, parts CC BY-ND", "terms"),
    _corpus("open-docs/train", "free licences by origin", "software", most=20_000),
    _corpus("nc-docs/train", "CC BY-NC-SA 3.0 and 4.0", "software"),
)
TESTS = (
    "multi30k/val",
    "multi30k/test_2016_flickr",
    "wmt-news/valid",
    "wmt-news/test",
    "tatoeba/valid",
    "tatoeba/test",
    "flores/devtest",
    "bcontrast/valid",
    "mlqe-pe/valid",
    "mlqe-pe/test",
)
AUGMENTATION = Augmentation(
    upper_case=0.02,
    title_case=0.01,
    no_final_punctuation=0.04,
    joined=0.03,
    fragments=0.05,
    alone=0.02,
    marked=0.02,
    bracketed=0.01,
    quoted=0.015,
    names=0.03,
    numbers=0.03,
    dates=0.01,
    times=0.01,
    amounts=0.015,
    codes=0.01,
    urls=0.01,
    addresses=0.005,
    user_names=0.01,
    emoji=0.01,
    placeholders=0.01,
    foreign=0.01,
    passages=0.05,
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
            max_length=120,
            held_out=TESTS,
            same_template=4,
            largest_domain=1 / 4,
            augmentation=AUGMENTATION,
        ),
        vocabulary=Vocabulary(size=8_000, character_coverage=0.9999, lossless=True),
        network=Network(
            encoder_layers=6,
            decoder_layers=2,
            width=256,
            heads=4,
            feed_forward=1024,
            norm="before",
            # So much text needs no dropout, which costs a fifth of a step.
            residual_dropout=0.0,
            embedding_dropout=0.0,
            max_length=256,
        ),
        optimisation=Optimisation(
            tokens_per_batch=4_000,
            accumulate=2,
            optimiser="muon",
            schedule="wsd",
            peak_learning_rate=2e-3,
            warmup=150,
            decay=3_000,
        ),
        budget=Budget(steps=18_000, validate_every=1_000, save_every=100, keep_checkpoints=4),
        average=1,
        effort="1.3 million pairs; 14 hours of one core, in as many parts as it takes, or minutes "
        "of a GPU",
    )


def general_de_en_grown() -> Recipe:
    """A network of twice the size, grown from ``general-de-en-fine-tuned``.

    Its int8 weights stay under 20 MB. Positions are learned, because sinusoids of another width
    are other positions.
    """
    general = general_de_en()
    return replace(
        general,
        name="general-de-en-grown",
        bundle=general.name,
        initial=general_de_en_fine_tuned().name,
        grow=True,
        vocabulary=replace(general.vocabulary, size=12_000),
        network=replace(
            general.network,
            encoder_layers=8,
            width=320,
            heads=5,
            feed_forward=1280,
            positions="learned",
            # The text has been seen three times, and will be seven times more.
            residual_dropout=0.1,
            embedding_dropout=0.1,
        ),
        optimisation=replace(
            general.optimisation,
            accumulate=12,
            schedule="constant",
            warmup=300,
            decay=0,
            moving_average=0.999,
        ),
        budget=replace(general.budget, steps=7_059, validate_every=250, save_every=50),
        effort="1.3 million pairs, after the run general-de-en-fine-tuned; six minutes of an H200",
    )


def _last_phase(recipe: Recipe, initial: str) -> Recipe:
    """Goes on from ``initial`` with everyday text and captions, a third of the tokens.

    Users try short sentences first, and general text has few of them.
    """
    repeated = {TATOEBA.name: 4, CAPTIONS.name: 8}
    return replace(
        recipe,
        name=f"{recipe.name}-fine-tuned",
        bundle=recipe.bundle_name,
        initial=initial,
        grow=False,
        data=replace(
            recipe.data,
            # Single words make translations short.
            train=tuple(
                replace(corpus, repeat=repeated.get(corpus.name, corpus.repeat))
                for corpus in recipe.data.train
                if corpus != LEXICON
            ),
            largest_domain=1 / 3,
        ),
    )


def general_de_en_fine_tuned() -> Recipe:
    general = general_de_en()
    return replace(
        _last_phase(general, initial=general.name),
        optimisation=replace(
            general.optimisation, accumulate=1, peak_learning_rate=1e-3, warmup=100, decay=2_200
        ),
        budget=replace(general.budget, steps=4_000, validate_every=500),
        effort="90 minutes of one core, after the run general-de-en",
    )


def general_de_en_grown_fine_tuned() -> Recipe:
    """The decay of ``general-de-en-grown``, which has a constant rate, on other text."""
    grown = general_de_en_grown()
    return replace(
        _last_phase(grown, initial=grown.name),
        optimisation=replace(
            grown.optimisation, schedule="wsd", warmup=50, decay=4_641, moving_average=0.0
        ),
        budget=replace(grown.budget, steps=4_691),
        effort="four minutes of an H200, after the run general-de-en-grown",
    )


def general_de_en_refined() -> Recipe:
    """A short pass at a small rate over what people wrote and translated: letters above all."""
    grown = general_de_en_grown_fine_tuned()
    # A third of the pairs is written for users; of every other kind there is enough to keep it.
    most = {
        WRITTEN.name: None,
        TATOEBA.name: 40_000,
        CAPTIONS.name: 15_000,
        CHAT.name: None,
        "wmt-news/train": 15_000,
        "wmt-general-20-22-23/train": None,
        "covost2/train": 10_000,
        "eval-sets-human/train": None,
        "ted/train": 10_000,
        "ms-docs/train": 15_000,
        "libreoffice-help/train": 5_000,
        "europarl-20k/train": 5_000,
    }
    return replace(
        grown,
        name="general-de-en-refined",
        initial=grown.name,
        data=replace(
            grown.data,
            train=(
                replace(LETTERS, repeat=20),
                replace(FORMS, repeat=20),
                *(
                    replace(
                        corpus,
                        repeat=10 if corpus.name == WRITTEN.name else 1,
                        most=most[corpus.name],
                    )
                    for corpus in grown.data.train
                    if corpus.name in most
                ),
            ),
            largest_domain=1 / 2,
        ),
        network=replace(grown.network, residual_dropout=0.0, embedding_dropout=0.0),
        optimisation=replace(
            grown.optimisation, accumulate=3, peak_learning_rate=3e-4, warmup=10, decay=230
        ),
        budget=replace(grown.budget, steps=240, validate_every=120, save_every=20),
        effort="25 minutes of two cores, after the run general-de-en-grown-fine-tuned",
    )


def general_de_en_letters() -> Recipe:
    """The last steps, in which short forms of letters are seen often enough to be kept."""
    refined = general_de_en_refined()
    most = {TATOEBA.name: 15_000, CAPTIONS.name: 5_000}
    return replace(
        refined,
        name="general-de-en-letters",
        initial=refined.name,
        data=replace(
            refined.data,
            train=(
                LETTERS,
                FORMS,
                *(
                    replace(corpus, repeat=1, most=most.get(corpus.name, 4_000))
                    for corpus in refined.data.train
                    if corpus.domain != LETTERS.domain
                ),
            ),
        ),
        optimisation=replace(refined.optimisation, peak_learning_rate=4e-4, decay=150),
        budget=replace(refined.budget, steps=160, validate_every=160),
        effort="20 minutes of two cores, after the run general-de-en-refined",
    )


def general_free_de_en() -> Recipe:
    everything = general_de_en()
    return replace(
        everything,
        name="general-free-de-en",
        data=replace(everything.data, train=FREE),
        effort="0.8 million pairs; otherwise as general-de-en",
    )


def student() -> Recipe:
    """The shape of Firefox's smallest models, for ``distill student --teacher BUNDLE``.

    Human translations alone teach so small a network less than those of a large one.
    """
    general = general_de_en()
    return replace(
        general,
        name="student",
        vocabulary=replace(general.vocabulary, size=16_000),
        network=replace(general.network, heads=8, feed_forward=1536, decoder="ssru"),
        effort="1.3 million pairs, translated by the teacher first; 14 hours of one core",
    )


def general_large_de_en() -> Recipe:
    """Teacher for ``distill general-de-en --teacher``; too large to publish with the code."""
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
        effort="1.3 million pairs; for a GPU",
    )


def everyday(source: str, target: str) -> Recipe:
    """A caption network is trained further on everyday sentences, with a new vocabulary.

    Two further captions of each picture are back-translated, to keep the quality of captions.
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
    """Final phase; captions are longer, so they weigh as much as everyday sentences."""
    fine = fine_tuned(everyday(source, target), steps=1_200)
    return replace(
        fine,
        data=replace(fine.data, train=(TATOEBA, replace(CAPTIONS, repeat=3), CHAT)),
        # The pairs have been seen dozens of times by then.
        network=replace(fine.network, residual_dropout=0.15),
    )
