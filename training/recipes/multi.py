"""One network for German, Spanish, French and Dutch, each from and into English.

Pairs without English, such as German and French, have no text: the service translates them through
English.
"""

from __future__ import annotations

from dataclasses import replace

from training.recipe import Corpus, Data, Recipe
from training.recipes.general import TATOEBA, general_de_en

_UNREVIEWED = {
    "pawsx": "free for any purpose, credit to Google; Wikipedia's text CC BY-SA",
    "xnli": "CC BY-NC 4.0",
    "stsb-deepl": "mixed, mostly CC BY-SA 4.0",
}
"""Licences of translations by machines or for tests, which French and Spanish have as well."""


def _pair(target: str, *unreviewed: str) -> tuple[Corpus, ...]:
    """The corpora of English and another language."""
    tatoeba = replace(TATOEBA, name=f"tatoeba-en-{target}/train", source="en", target=target)
    return (
        tatoeba,
        *(
            replace(tatoeba, name=f"{name}-en-{target}/train", licence=_UNREVIEWED[name])
            for name in unreviewed
        ),
    )


TRAIN = (
    TATOEBA,
    *(replace(TATOEBA, name=f"{name}/train", licence=_UNREVIEWED[name]) for name in _UNREVIEWED),
    *_pair("es", "pawsx", "xnli", "stsb-deepl"),
    *_pair("fr", "pawsx", "xnli", "stsb-deepl"),
    *_pair("nl"),
)


def _sets(split: str) -> tuple[Corpus, ...]:
    """A set of Tatoeba for each pair, German first."""
    return tuple(
        replace(corpus, name=corpus.name.replace("/train", f"/{split}"), domain="")
        for corpus in TRAIN
        if corpus.name.startswith("tatoeba")
    )


def multi() -> Recipe:
    general = general_de_en()
    valid, *more_valid = _sets("valid")
    test, *more_test = _sets("test")
    return replace(
        general,
        name="multi",
        data=Data(
            source="de",
            target="en",
            train=TRAIN,
            valid=valid,
            test=test,
            more_valid=tuple(more_valid),
            more_test=tuple(more_test),
            bidirectional=True,
            max_length=100,
            # Dutch has a third of German's sentences.
            temperature=2.0,
            held_out=(
                "flores/devtest",
                *(each.name for each in (*_sets("valid"), *_sets("test"))),
            ),
        ),
        vocabulary=replace(general.vocabulary, size=12_000),
        # The text is read several times.
        network=replace(general.network, residual_dropout=0.1, embedding_dropout=0.1),
        optimisation=replace(general.optimisation, decay=800),
        budget=replace(general.budget, steps=2_400, validate_every=400),
        effort="0.5 million pairs; two hours of two cores",
    )
