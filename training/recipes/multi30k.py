"""Recipes for image captions between English and German, French or Czech, and their variations.

The networks train in two hours on two cores. Variations change depth, data or loss.
"""

from __future__ import annotations

from dataclasses import replace

from training.recipe import Budget, Corpus, Data, Network, Optimisation, Recipe, Vocabulary

LICENCE = "research and education, non-commercial (Flickr30K)"
DESCRIPTIONS = tuple(f"multi30k/descriptions.{number}" for number in range(1, 6))
"""Independent captions of the same pictures in each language, not parallel."""


def multi30k_de_en() -> Recipe:
    return multi30k("de", "en")


def multi30k_en_de() -> Recipe:
    forward = multi30k("en", "de")
    # German has more inflection and takes longer to learn.
    return replace(forward, budget=replace(forward.budget, steps=8_000))


def multi30k(source: str, target: str) -> Recipe:
    """A direction between English and another language."""
    return Recipe(
        name=f"multi30k-{source}-{target}",
        data=Data(
            source=source,
            target=target,
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
        description="It translates captions of pictures: who is where and does what. Whatever else "
        "it is given, it makes a caption of.",
        effort="two hours on two cores",
    )


def multi30k_bidirectional() -> Recipe:
    """German and English, both directions in one network."""
    one_way = multi30k_de_en()
    return replace(
        one_way,
        name="multi30k-de-en-bidirectional",
        data=replace(one_way.data, bidirectional=True),
        budget=replace(one_way.budget, steps=14_400, validate_every=460),
        effort="four hours on two cores",
    )


def multi30k_r_drop() -> Recipe:
    """Trained with R-Drop (Liang et al., 2021), with the paper's weight for translation."""
    plain = multi30k_de_en()
    return replace(
        plain,
        name="multi30k-de-en-r-drop",
        optimisation=replace(plain.optimisation, r_drop=5.0),
        effort="four hours on two cores: every step is two",
    )


def multi30k_student() -> Recipe:
    """A student of half the width, distilled from the plain model (Kim and Rush, 2016)."""
    plain = multi30k_de_en()
    return replace(
        plain,
        name="multi30k-de-en-student",
        data=replace(
            plain.data,
            train=(
                Corpus(
                    name="multi30k/train",
                    licence=LICENCE,
                    translated="target",
                    translator="multi30k-de-en",
                ),
            ),
        ),
        network=replace(
            plain.network, decoder_layers=1, width=128, feed_forward=256, residual_dropout=0.1
        ),
        effort="one hour on two cores, with the bundle multi30k-de-en at hand",
    )


def multi30k_back_translated() -> Recipe:
    """Trained from scratch on captions and back-translated captions (Sennrich et al., 2016)."""
    augmented = multi30k_augmented("de", "en")
    plain = multi30k_de_en()
    return replace(
        augmented,
        name="multi30k-de-en-back-translated",
        initial=None,
        bundle=None,
        network=plain.network,
        optimisation=plain.optimisation,
        budget=replace(plain.budget, steps=20_000, validate_every=500),
        effort="six hours on two cores, with the bundle multi30k-en-de at hand",
    )


def multi30k_augmented(source: str, target: str) -> Recipe:
    """The plain run, continued with five further target-language captions of each picture,
    back-translated by the plain model of the other direction. Its bundle replaces the plain one."""
    plain = multi30k_de_en() if (source, target) == ("de", "en") else multi30k_en_de()
    captions = tuple(
        Corpus(
            name=name,
            licence=LICENCE,
            translated="source",
            translator=f"multi30k-{target}-{source}",
        )
        for name in DESCRIPTIONS
    )
    return replace(
        plain,
        name=f"{plain.name}-augmented",
        bundle=plain.name,
        data=replace(plain.data, train=(replace(plain.data.train[0], repeat=3), *captions)),
        # More text needs less dropout.
        network=replace(plain.network, residual_dropout=0.15),
        optimisation=replace(plain.optimisation, peak_learning_rate=8e-4, warmup=300),
        budget=Budget(steps=8_000, validate_every=500, keep_checkpoints=8),
        initial=plain.name,
        effort=f"two hours on two cores, after the run {plain.name} and with the bundle "
        f"multi30k-{target}-{source} at hand",
    )


def multi30k_fine_tuned_en_de() -> Recipe:
    # The twentieth pass over the same text needs the plain run's dropout again.
    return replace(
        fine_tuned(multi30k_augmented("en", "de"), steps=600), network=multi30k_en_de().network
    )


def fine_tuned(before: Recipe, steps: int) -> Recipe:
    """Run ``before``, continued on human text on both sides. Its bundle replaces that of
    ``before``."""
    written = tuple(corpus for corpus in before.data.train if corpus.translated is None)
    return replace(
        before,
        name=f"{before.bundle_name}-fine-tuned",
        bundle=before.bundle_name,
        data=replace(before.data, train=written),
        optimisation=replace(before.optimisation, peak_learning_rate=3e-4, warmup=60),
        budget=Budget(steps=steps, validate_every=300, save_every=100, keep_checkpoints=6),
        initial=before.name,
        effort=f"{steps // 60} minutes on two cores, after the run {before.name}",
    )


def multi30k_transferred(source: str, target: str) -> Recipe:
    """French or Czech, initialised from the German run on the same English side (Kocmi and Bojar,
    2018, "Trivial Transfer Learning for Low-Resource Neural Machine Translation")."""
    parent = multi30k_augmented("de", "en") if target == "en" else multi30k_augmented("en", "de")
    one_way = multi30k(source, target)
    return replace(
        one_way,
        optimisation=replace(one_way.optimisation, peak_learning_rate=1e-3, warmup=300),
        budget=Budget(steps=3_000, validate_every=250, keep_checkpoints=8),
        initial=parent.name,
        effort=f"an hour on two cores, after the run {parent.name}",
    )
